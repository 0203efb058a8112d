import { Readable } from 'node:stream'
import type { AdminViewer, HumanViewer } from '../access/viewer.ts'
import { inputOf } from '../agents/agent-definition.ts'
import { JOBS_CHANNEL } from '../broker/topics.ts'
import type { Message, ToolCall } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import type { Json } from '../lib/json.ts'
import { digestOf } from '../rules/approvals.ts'
import { WAS_MENTIONED } from '../rules/routing.ts'
import { makeCallDue } from '../stores/call-store.ts'
import { restoreGrants } from '../stores/grant-store.ts'
import { insertPlan, setNextSlot } from '../stores/plan-store.ts'
import { callGate } from './gates.ts'
import type { Action } from './order.ts'
import type { Recorded, Recording } from './recording.ts'
import { passGate, waitFor } from './waiting.ts'
import { learnMessages, nameOf, type PlayOptions, prismaOf, type World } from './world.ts'

export const ADMIN: AdminViewer = { scope: 'ADMIN', id: `acc_${'0'.repeat(32)}`, tokenId: null, expiresAt: null }
const personOf = (id: string): HumanViewer => ({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })

/** The actions that the engine performs on its own, unless the replay makes it wait. */
const OF_ENGINE = ['begin', 'step', 'answer', 'call', 'post', 'result'] as const
type EngineAction = Extract<Action, { type: (typeof OF_ENGINE)[number] }>

export const isOfEngine = (action: Action): action is EngineAction =>
  (OF_ENGINE as readonly string[]).includes(action.type)

/** Performs an action in the replay. Returns a sentence that says why this is impossible; null if it succeeded. */
export async function perform(world: World, action: Action): Promise<string | null> {
  if (isOfEngine(action)) return letEngine(world, action)
  try {
    return await actOutside(world, action)
  } catch (error) {
    return `The replay cannot repeat this: ${messageOf(error)}`
  }
}

/**
 * Lets the engine continue up to an action. Returns a sentence that says why this is impossible; null if it succeeded.
 */
async function letEngine(world: World, action: EngineAction): Promise<string | null> {
  const { ids, recording, thinking, app } = world
  const replayed = (id: string | null) => ids.replayedOf(id ?? '')
  // biome-ignore lint/nursery/useExhaustiveSwitchCases: Biome does not evaluate Extract and Exclude
  switch (action.type) {
    case 'begin': {
      const { id, agentId, triggerType } = action.run
      if (triggerType === 'INBOX') {
        thinking.add(agentId)
        await app.platform.signals.publish(JOBS_CHANNEL, {})
      }
      return passGate(world, () => `begin ${replayed(id)}`, `${nameOf(recording, agentId)} is not woken here.`)
    }
    case 'step':
    case 'answer': {
      const { run, index, isOptional, type } = action
      const reason = `${nameOf(recording, run.agentId)} does not reach step ${index}.`
      const failure = await passGate(world, () => `${type} ${replayed(run.id)} ${index}`, reason)
      return isOptional ? null : failure
    }
    case 'post': {
      const { runId, seq, senderId } = action.message
      const reason = `${nameOf(recording, senderId)} does not post the message ${seq}.`
      const gate = () => `post ${replayed(runId)}`
      const failure = await passGate(world, gate, reason)
      if (failure !== null) return failure
      const isThere = await waitFor(world, async () => {
        // An attempt that fails here also failed in the recording.
        world.gates.release(gate())
        return (await prismaOf(world).message.count({ where: { spaceId: recording.heading.spaceId, seq } })) > 0
      })
      return isThere ? null : reason
    }
    case 'call':
      await passGate(world, () => callGate(replayed(action.call.runId), action.call), '')
      return null
    case 'result':
      // A call that was refused before it was sent has no external result.
      await passGate(world, () => `result ${action.call.id}`, '')
      return null
  }
}

type OutsideAction = Exclude<Action, EngineAction>

/** Repeats an action of a person, plan, service or timer. @throws the error of the flow if it refuses the action */
async function actOutside(world: World, action: OutsideAction): Promise<string | null> {
  if ('call' in action) return actOnCall(world, action)
  if ('message' in action || action.type === 'react') return actOnMessage(world, action)
  const { app, ids, options, recording } = world
  const { domain } = app
  const { spaceId } = recording.heading
  const replayed = (id: string | null) => ids.replayedOf(id ?? '')
  // biome-ignore lint/nursery/useExhaustiveSwitchCases: Biome does not evaluate Extract and Exclude
  switch (action.type) {
    case 'join':
      await domain.members.add(ADMIN, { spaceId, entityId: action.entityId })
      return null
    case 'leave':
      await domain.members.remove(ADMIN, { spaceId, entityId: action.entityId })
      return null
    case 'update-space':
      await domain.spaces.update(ADMIN, { id: spaceId, ...action.input })
      return null
    case 'pause':
      await domain.agents.update(ADMIN, { id: action.agentId, paused: action.paused })
      return null
    case 'remember': {
      const { agentId, key, value } = action.memory
      await domain.memories.setAs(ADMIN, { agentId, memories: [{ key, value }] })
      return null
    }
    case 'propose-grant':
      await restoreGrants(prismaOf(world), [action.grantId])
      return null
    case 'decide-grant': {
      const { grantId: id, humanId, approve, reason } = action.decision
      await domain.grants.decide(personOf(humanId), { id, approve, reason })
      return null
    }
    case 'revoke-grant':
      await domain.grants.revoke(action.humanId === null ? ADMIN : personOf(action.humanId), {
        id: action.grantId,
      })
      return null
    case 'version': {
      const { agentId, definition } = action.version
      await domain.agents.update(ADMIN, withChanges(inputOf(agentId, definition), options))
      return null
    }
    case 'make-plan':
      await makePlan(world, action)
      return null
    case 'fire':
      await firePlan(world, action)
      return null
    case 'service': {
      const { agentId, name: serviceName, payload, urgent } = action
      await domain.control.triggerAgent(ADMIN, { agentId, serviceName, payload, urgent })
      return null
    }
    case 'stop': {
      const { id, stoppedById } = action.run
      const runId = replayed(id)
      if (runId === undefined) return 'The run to stop does not exist in the replay.'
      world.gates.openRun(runId)
      await domain.control.stopRun(stoppedById === null ? ADMIN : personOf(stoppedById), { runId, cascade: false })
      return null
    }
    case 'retry': {
      const runId = replayed(action.runId)
      if (runId === undefined) return 'The run that was retried at this point does not exist in the replay.'
      await domain.control.retryRun(ADMIN, { runId })
      return null
    }
  }
}

async function actOnMessage(
  world: World,
  action: Extract<OutsideAction, { type: 'say' | 'edit' | 'delete' | 'react' }>,
): Promise<null> {
  const { app, ids, recording } = world
  const { sending, messageChanges } = app.domain
  await learnMessages(world)
  const replayed = (id: string) => ids.replayedOf(id) ?? id
  if (action.type === 'react') {
    const { messageId, emoji, entityId } = action.reaction
    await messageChanges.react(personOf(entityId), { messageId: replayed(messageId), emoji })
    return null
  }
  const { id, senderId, replyToId } = action.message
  if (action.type === 'edit') {
    await messageChanges.edit(personOf(senderId), {
      messageId: replayed(id),
      text: action.text,
      retryRuns: action.retriesRuns,
    })
    return null
  }
  if (action.type === 'delete') {
    await messageChanges.delete(ADMIN, { messageId: replayed(id) })
    return null
  }
  const { message } = await sending.send(personOf(senderId), {
    spaceId: recording.heading.spaceId,
    text: action.text,
    fileIds: await uploadFiles(world, action.message),
    mentionedIds: mentionedIn(recording, action.message),
    replyToId: replyToId === null ? null : replayed(replyToId),
  })
  ids.link(id, message.id)
  return null
}

/**
 * Returns the members that a message mentions. For a deleted message, returns the members that were woken because it
 * mentioned them.
 */
function mentionedIn(
  { outcomes }: Recording,
  { id, deletedAt, mentionedAgentId, mentionedIds }: Recorded<Message>,
): string[] {
  const woken = outcomes.filter(({ messageId, reason }) => messageId === id && reason === WAS_MENTIONED)
  if (deletedAt !== null) return woken.map(({ agentId }) => agentId)
  return [...new Set([...(mentionedAgentId === null ? [] : [mentionedAgentId]), ...mentionedIds])]
}

/** Uploads the files of a person's message under their recorded ids. Returns these ids. */
async function uploadFiles({ app, recording }: World, { senderId, parts }: Recorded<Message>): Promise<string[]> {
  const ids: string[] = []
  for (const { type, fileId: id = '', name = '' } of parts as { type: string; fileId?: string; name?: string }[]) {
    if (type !== 'file') continue
    const bytes = recording.fileBytes.get(id) ?? Buffer.alloc(0)
    const body = Readable.from([bytes])
    await app.domain.files.upload(personOf(senderId), { id, name, body, bytes: bytes.byteLength })
    ids.push(id)
  }
  return ids
}

async function actOnCall(
  world: World,
  action: Extract<OutsideAction, { type: 'decide' | 'submit' | 'expire' }>,
): Promise<string | null> {
  const { app, ids } = world
  const { control } = app.domain
  const { call } = action
  const toolCallId = await replayedCall(world, call)
  if (toolCallId === null) return `The call to ${call.toolName}, on which a person acted at this point, was not made.`
  if (action.type === 'submit') {
    const viewer = call.answeredById === null ? ADMIN : personOf(call.answeredById)
    await control.submitToolResult(viewer, { toolCallId, result: ids.toReplay(call.output) })
    return null
  }
  if (action.type === 'decide') {
    const { humanId, approve, reason } = action.decision
    const final = ids.toReplay(call.input)
    // The digest names the input that the person saw. Without it, a decision is about the input that the model wrote.
    const isAboutFinal = digestOf(call.input as Json) === action.decision.inputDigest
    const seen = isAboutFinal ? { inputDigest: digestOf(final as Json) } : {}
    // A changed agent can write another input. The recorded decision then applies to the current input.
    const about = world.isFree ? await readInputDigest(world, toolCallId) : seen
    const input = action.input === null ? about : { input: final }
    await control.decideToolCall(personOf(humanId), { toolCallId, approve, reason, ...input })
    return null
  }
  await makeCallDue(prismaOf(world), toolCallId)
  const isOver = await waitFor(world, async () => {
    const row = await prismaOf(world).toolCall.findUnique({ where: { id: toolCallId }, select: { settledAt: true } })
    return row?.settledAt != null
  })
  return isOver ? null : `The call to ${call.toolName} does not time out.`
}

/** Returns the digest of the input that a call has now. */
async function readInputDigest(world: World, toolCallId: string): Promise<{ inputDigest: string | null }> {
  const where = { id: toolCallId }
  return prismaOf(world).toolCall.findUniqueOrThrow({ where, select: { inputDigest: true } })
}

/**
 * Waits for the call that repeats a recorded call. With a changed agent (a candidate), this call can belong to another
 * step.
 */
async function replayedCall(world: World, call: Recorded<ToolCall>): Promise<string | null> {
  const { ids, isFree } = world
  const { agentId, toolName, stepIndex, modelCallId } = call
  const runId = ids.replayedOf(call.runId)
  if (runId === undefined && !isFree) return null
  const here = { runId: runId ?? '', stepIndex, modelCallId, status: { not: 'STREAMING' as const } }
  const where = isFree ? { agentId, toolName, status: 'WAITING' as const } : here
  const found: string[] = []
  await waitFor(world, async () => {
    const row = await prismaOf(world).toolCall.findFirst({ where, select: { id: true } })
    if (row !== null) found.push(row.id)
    return row !== null
  })
  return found[0] ?? null
}

async function makePlan(world: World, { plan, nextRunAt }: Extract<Action, { type: 'make-plan' }>): Promise<void> {
  const { id, agentId, name, instruction, cron, timeZone, originId, places, label, askers } = plan
  const next = nextRunAt === null ? null : new Date(nextRunAt)
  const data = { id, agentId, name, instruction, cron, timeZone, originId, places, label, askers, nextRunAt: next }
  await insertPlan(prismaOf(world), data)
}

async function firePlan(world: World, { firing, plan }: Extract<Action, { type: 'fire' }>): Promise<void> {
  const id = world.ids.replayedOf(plan.id) ?? plan.id
  await world.app.domain.plans.runNow(ADMIN, { id })
  // The slot of a plan that fires once is its last one, so the plan is finished.
  if (plan.cron === null && firing.slot !== firing.firedAt) await setNextSlot(prismaOf(world), id, null)
}

/**
 * The recorded order decides which runs execute at the same time, so the agent's own limit must not make a run wait.
 */
export const MOST_RUNS = { maxConcurrentRuns: 100 }

/** Applies the changes of a backtest to an agent's input. */
export const withChanges = <T extends { id: string }>(input: T, { changes, isFree }: PlayOptions): T => ({
  ...input,
  ...(isFree === true ? {} : MOST_RUNS),
  ...changes?.get(input.id),
})
