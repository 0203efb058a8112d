import type { ModelMessage } from 'ai'
import type { CycleSettings } from '../agents/cycle-settings.ts'
import type { Recall, Recalling } from '../agents/recall.ts'
import { together } from '../confidentiality/marks.ts'
import type { Prisma, RunStatus } from '../generated/prisma/client.ts'
import { estimateTokens } from '../lib/token-estimate.ts'
import type { Platform } from '../platform/platform.ts'
import type { Blame } from '../rules/run-end.ts'
import { messagesOfCycle } from '../runs/cycle-transcript.ts'
import type { Withheld } from '../runs/withheld.ts'
import { countWaiting, firstWaiting, takeUrgentEvents } from '../stores/inbox-store.ts'
import { ENDED_RUNS_SQL } from '../stores/status-sql.ts'
import { announceTaken, deepest, INBOX_CHARACTERS_A_TOKEN, isNewMessage, lineageOf, showInOutcomes } from './cycle.ts'
import { type CycleState, cycleStateOf, saveCycleState } from './cycle-state.ts'
import { cycleGuidanceFor, guidanceFor } from './guidance.ts'
import { hiddenCycles, withheldTogether } from './hidden-cycles.ts'
import { MOST_PREVIEW_LINES, previewMessage, urgentMessage } from './inbox-message.ts'
import { isRedacted, type Mind, type MindInput, phaseOf, readAnew } from './mind.ts'
import { instructionsOf } from './prompt.ts'

interface PersistentInput extends MindInput {
  platform: Platform
  recalling: Recalling
}

/**
 * The PERSISTENT memory mode: the consciousness is the history, and the inbox is the trigger. Each step except the
 * first shows the model new urgent events in full, which become part of the cycle. If there are none, the step shows a
 * preview of the inbox, which is not kept.
 */
export function createPersistentMind(input: PersistentInput): Mind {
  const { platform, recalling, scene, scenes, run, tools } = input
  const { id: runId } = run.context.run
  const { agent } = scene
  const settings = agent.cycle as unknown as CycleSettings
  const guidance = [...guidanceFor(tools), ...cycleGuidanceFor(tools, settings)]
  let state = cycleStateOf(run.context.run)
  let recalled: ModelMessage[] | null = null
  let withheldCycles: Withheld[] = []

  const instructions = () =>
    instructionsOf({
      claim: run.context,
      scene,
      activeSpaceId: run.context.activeSpace?.id ?? null,
      guidance,
      showsRuns: false,
    })

  function keep(next: CycleState): void {
    state = next
    run.apply({ state: next as unknown as Prisma.JsonValue })
  }

  async function recallAgain(recall: Recall): Promise<ModelMessage[]> {
    return (await recalling.again(agent.id, recall)) as ModelMessage[]
  }

  async function decideRecall(): Promise<ModelMessage[]> {
    const { maxConsciousnessTokens: most, minRecentCycles: leastWhole } = settings
    const taken = estimateTokens(instructions()) + estimateTokens(state.inbox)
    const { divisor, isRefused } = await thriftAfterFailures(platform, agent.id)
    const { hidden, label, withheld } = await hiddenCycles(platform.db, agent.id, scene)
    withheldCycles = withheld
    run.apply({ learned: { label } })
    const { recall, messages, tokens } = await recalling.choose(agent.id, {
      budget: Math.floor(Math.max(0, most - taken) / divisor),
      mostWhole: Math.floor(most / divisor),
      hidden,
      allowed: { tokens: Math.floor(most / (isRefused ? 1 : divisor)), leastWhole },
    })
    const consciousnessTokens = tokens + estimateTokens(state.inbox)
    const decided = { ...state, recall, consciousnessTokens }
    await saveCycleState(platform.db.prisma, run.context, decided, run.context.run)
    keep(decided)
    return messages as ModelMessage[]
  }

  /** Claims urgent events and adds them before `step`. Returns false if there were none. */
  async function takeUrgent(step: number): Promise<boolean> {
    const injected = await platform.db.transaction(async (tx) => {
      const mostCharacters = settings.maxConsciousnessTokens * INBOX_CHARACTERS_A_TOKEN
      const events = await takeUrgentEvents(tx, agent.id, runId, mostCharacters)
      if (events.length === 0) return null
      const next: CycleState = {
        ...state,
        inboxSize: state.inboxSize + events.length,
        spaceMessages: state.spaceMessages + events.filter(isNewMessage).length,
        injections: [...state.injections, { step, text: urgentMessage(events) }],
      }
      const { rootId, depth, deepestSpaceId, places, label, askers } = run.context.run
      const lineage = deepest([{ rootId, depth, deepestSpaceId, places, label, askers }, ...events.map(lineageOf)])
      await saveCycleState(tx, run.context, next, lineage)
      await showInOutcomes(tx, events, agent.id, runId)
      return { next, lineage, events }
    })
    if (injected === null) return false
    run.apply({ lineage: injected.lineage })
    keep(injected.next)
    scene.sources.push(...injected.events)
    await announceTaken(platform, injected.events)
    return true
  }

  /**
   * Claims urgent events.
   * @returns a preview of the inbox if there were no urgent events
   */
  async function lookAtInbox(step: number): Promise<ModelMessage[]> {
    if (step === 0 || (!settings.inboxPreview && !settings.urgentInjection)) return []
    const seen = platform.conductor?.inboxAt(runId, step) ?? null
    if (seen?.type === 'nothing') return []
    if (seen?.type === 'preview') {
      run.apply({ learned: seen.marks })
      return [{ role: 'user', content: seen.text }]
    }
    const waiting = await countWaiting(platform.db.prisma, agent.id, runId)
    const mayTake = settings.urgentInjection && waiting.urgent > 0 && !state.alone
    if (mayTake && (await takeUrgent(step))) return []
    if (!settings.inboxPreview || waiting.total === 0) return []
    const events = await firstWaiting(platform.db.prisma, agent.id, runId, MOST_PREVIEW_LINES)
    run.apply({ learned: together(events) })
    return events.length === 0 ? [] : [{ role: 'user', content: previewMessage(events, waiting.total) }]
  }

  return {
    async plan(journaled) {
      if (journaled.length > 0) run.apply({ learned: await scenes.refresh(run.context, scene) })
      const anew = isRedacted(input) ? await readAnew(input) : null
      const steps = anew?.steps ?? journaled
      if (anew !== null) {
        keep(cycleStateOf(anew))
        recalled = null
      }
      recalled ??= state.recall === null ? await decideRecall() : await recallAgain(state.recall)
      const step = steps.length
      const preview = await lookAtInbox(step)
      const inbox: ModelMessage = { role: 'user', content: state.inbox }
      const injected = state.injections.filter((injection) => injection.step === step).length
      return {
        instructions: instructions(),
        messages: [...recalled, inbox, ...messagesOfCycle(state, steps), ...preview],
        withheld: withheldTogether(scene.withheld, withheldCycles),
        added: (step === 0 ? 1 : 0) + injected + preview.length,
        ...phaseOf(agent, step, input),
      }
    },
    isDone(steps) {
      if (!settings.stopWhenAllAnswered || state.spaceMessages === 0) return false
      const calls = steps.flatMap((step) => step.calls)
      return (
        calls.filter(({ toolName, status }) => speaks(input, toolName) && status === 'DONE').length >=
        state.spaceMessages
      )
    },
    async onFailed(failure) {
      const failed = { ...state, failure }
      await saveCycleState(platform.db.prisma, run.context, failed, run.context.run)
      keep(failed)
    },
  }
}

function speaks({ tools }: MindInput, toolName: string): boolean {
  return tools.get(toolName)?.presence.type === 'speech'
}

const ENDS_LOOKED_AT = 20

interface Thrift {
  /** The consciousness budget is divided by this number. */
  divisor: number
  /**
   * Whether cycles that were omitted from the recall stay omitted, because a provider rejected some of their content.
   */
  isRefused: boolean
}

/**
 * Beginning with the second failed cycle in a row, halves the budget with each failure. So content that a provider
 * rejects, or that is too large, cannot silence the agent permanently. Failures of the provider itself are not counted.
 * After the first success, omitted cycles are shown again.
 */
async function thriftAfterFailures({ db }: Platform, agentId: string): Promise<Thrift> {
  const ended = await db.prisma.$queryRaw<{ status: RunStatus; failure: Blame | null }[]>`
    SELECT * FROM (
      SELECT status, state->>'failure' AS failure FROM "Run"
      WHERE "agentId" = ${agentId} AND "triggerType" = 'INBOX' AND status IN ${ENDED_RUNS_SQL}
      ORDER BY id DESC LIMIT ${ENDS_LOOKED_AT}
    ) ended WHERE coalesce(failure, '') <> 'provider'`
  const other = ended.findIndex(({ status }) => status !== 'FAILED')
  const failures = other === -1 ? ended : ended.slice(0, other)
  return {
    divisor: failures.length < 2 ? 1 : 2 ** (failures.length - 1),
    isRefused: failures.some(({ failure }) => failure === 'prompt'),
  }
}
