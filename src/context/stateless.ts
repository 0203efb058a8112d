import { isDeepStrictEqual } from 'node:util'
import type { ModelMessage, UserModelMessage } from 'ai'
import { isAnsweredOutside } from '../rules/call-answers.ts'
import { sentAndAdded } from '../runs/conversation.ts'
import { readDecisionTexts } from '../runs/decision-texts.ts'
import { picturePart } from '../runs/file-references.ts'
import type { JournaledStep } from '../runs/journal.ts'
import { type HistoryLine, labelOf } from '../spaces/history.ts'
import { guidanceFor } from './guidance.ts'
import { isRedacted, type Mind, type MindInput, phaseOf, readAnew, type StepPlan } from './mind.ts'
import { instructionsOf, meanwhileMessageOf, triggerMessageOf } from './prompt.ts'
import { runNotice } from './run-notice.ts'
import { belongsTo } from './scene.ts'

/** The STATELESS memory mode: the context is rebuilt from the space for each run. */
export function createStatelessMind(input: MindInput): Mind {
  const { scene, run, tools, scenes } = input
  const guidance = guidanceFor(tools)
  const notice = () => (tools.has('getMyRuns') ? runNotice(run.context, scene) : '')
  return {
    async plan(journaled) {
      // This is also needed for the first plan of a run that was taken over, because its pending calls were executed
      // after the scene was loaded.
      if (journaled.length > 0) run.apply({ learned: await scenes.refresh(run.context, scene) })
      const steps = isRedacted(input) ? (await readAnew(input)).steps : journaled
      const shown = await messagesOf(input, steps)
      const activeSpaceId = run.context.activeSpace?.id ?? null
      const decisions = await readDecisionTexts(
        input.db.prisma,
        steps.flatMap(({ calls }) => calls),
      )
      return {
        instructions: instructionsOf({
          claim: run.context,
          scene,
          activeSpaceId,
          guidance,
          decisions,
          notice: notice(),
        }),
        ...shown,
        withheld: scene.withheld,
        ...phaseOf(scene.agent, steps.length, input),
      }
    },
    isDone: () => false,
    onFailed: async () => {},
  }
}

type Shown = Pick<StepPlan, 'messages' | 'added' | 'holdsResponse'>

/**
 * Returns the messages with the run's trigger. Journaled messages stay the same, with two exceptions. If the agent has
 * left the trigger's space, the trigger is not shown. After a wait, the messages that were posted during the wait are
 * added.
 */
async function messagesOf(input: MindInput, steps: JournaledStep[]): Promise<Shown> {
  const { run, scene } = input
  const opening = (): UserModelMessage => {
    const text = triggerMessageOf(run.context, scene)
    const pictures = belongsTo(scene, run.context.run.triggerSpaceId) ? picturesOf(scene.triggerMessage) : []
    return { role: 'user', content: pictures.length === 0 ? text : [{ type: 'text', text }, ...pictures] }
  }
  const last = sentAndAdded(steps).at(-1)
  if (last === undefined) return { messages: [opening()], added: 1 }
  const { sent, response } = last
  const isHidden = !belongsTo(scene, run.context.run.triggerSpaceId)
  const first = isHidden ? opening() : sent[0]
  const isAsSent = first === undefined || isDeepStrictEqual(first.content, sent[0]?.content)
  const meanwhile = await sinceTheWait(input, steps.at(-1))
  if (isAsSent && meanwhile.length === 0) return { messages: [...sent, ...response], added: 0 }
  const messages = [...(isAsSent ? sent : [first, ...sent.slice(1)]), ...meanwhile, ...response]
  return { messages, added: messages.length - (isAsSent ? sent.length : 0), holdsResponse: true }
}

const MOST_PICTURES = 5

/** Returns the first images of a message, for models that accept images. */
function picturesOf(message: HistoryLine | null) {
  const pictures = message?.files?.filter(({ mediaType }) => mediaType.startsWith('image/')) ?? []
  return pictures.slice(0, MOST_PICTURES).map(({ fileId }) => picturePart(fileId))
}

/**
 * Returns the messages that were posted in the active space while the calls of the last step waited, if the run may
 * read the space. `read_messages` then continues from there.
 */
async function sinceTheWait(input: MindInput, last: JournaledStep | undefined): Promise<ModelMessage[]> {
  const { scene, run, scenes, journal } = input
  const { activeSpace } = run.context
  const waited = last?.calls.find(
    (call) => (isAnsweredOutside(call) && call.status !== 'FAILED') || call.approvalState !== null,
  )
  if (waited === undefined || activeSpace === null || !belongsTo(scene, activeSpace.id)) return []
  const { id } = activeSpace
  const meanwhile = await scenes.meanwhile(run.context, { spaceId: id, callId: waited.id })
  if (meanwhile === null) return []
  const learned = { places: [id], label: labelOf(meanwhile.lines) }
  run.apply({ learned, entered: { id, seq: meanwhile.seq } })
  await journal.entered(run.context, id, meanwhile.seq)
  if (meanwhile.lines.length === 0) return []
  return [{ role: 'user', content: meanwhileMessageOf(meanwhile, scene.agent.id) }]
}
