import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { AdminViewer, HumanViewer } from '../access/viewer.ts'
import { inputOf } from '../agents/agent-definition.ts'
import { type Application, createApp } from '../app.ts'
import { JOBS_CHANNEL } from '../broker/topics.ts'
import { readConfig } from '../config.ts'
import type { Step } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import { logContext } from '../lib/log-context.ts'
import type { CallOptions } from '../models/language-model.ts'
import { importSpace } from '../operation/import.ts'
import { FORMAT, FORMAT_VERSION, readMovedRows } from '../operation/moving.ts'
import { runsOfSpace } from '../operation/recording.ts'
import { makeCallDue } from '../stores/call-store.ts'
import { createGates } from './gates.ts'
import { createIdMap, type IdMap } from './ids.ts'
import { createRecordedModel, type ModelAnswer } from './recorded-model.ts'
import { createRecordedHttp, createRecordedMcp, type RecordedAnswer, type StoredListing } from './recorded-tools.ts'
import { type Recorded, type Recording, type RoomRows, roomOf, type Tables } from './recording.ts'
import { type Action, beginOf, firstMembers, isOutside, type ScheduledAction, scheduleOf, textOf } from './schedule.ts'

/** The place at which a replay could not follow its recording. */
export interface Stall {
  action: Action
  reason: string
}

export interface Played {
  rows: RoomRows
  ids: IdMap

  stall: Stall | null
  /** Ids of the replay's runs by the recorded runs that they repeat. */
  runs: Map<string, string>
  /** Calls and generations for which the recording has no answer, as sentences. */
  missing: string[]
}

export interface PlayOptions {
  /** Changes agents after they were written: fields of UpdateAgentInput by the agent's id. */
  changes?: ReadonlyMap<string, JsonObject>
  /** Answers instead of the recording; null for the recorded answer. */
  model?(asked: Asked): Promise<ModelAnswer | null>
  /** Follows the recording only where people, plans and services act, and lets the agents do what they want. */
  isFree?: boolean
}

/** A generation that the engine asks for. */
export interface Asked {
  model: string
  agentId: string
  options: CallOptions
  /** The recorded step at the same place; undefined for none. */
  step: Recorded<Step> | undefined
}

const ADMIN: AdminViewer = { scope: 'ADMIN', id: `acc_${'0'.repeat(32)}`, tokenId: null, expiresAt: null }
const personOf = (id: string): HumanViewer => ({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })

/** How long nothing may happen before the replay counts as unable to follow. */
const STALL_MS = 1200
const LONGEST_WAIT_MS = 30_000
const POLL_MS = 4
/** Runs that may be claimed this soon count as moving. */
const SOON_MS = 50
const ENDED = ['COMPLETED', 'FAILED', 'CANCELED']

/**
 * Plays a recording on the real engine, in an embedded database of its own: people, plans and services act in the recorded
 * order, models and tools give their recorded answers.
 */
export async function play(recording: Recording, options: PlayOptions = {}): Promise<Played> {
  const folder = await mkdtemp(path.join(tmpdir(), 'parley-replay-'))
  try {
    return await playIn(folder, recording, options)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function playIn(folder: string, recording: Recording, options: PlayOptions): Promise<Played> {
  const { heading, runs, steps, calls } = recording
  const ids = createIdMap()
  const gates = createGates()
  const schedule = scheduleOf(recording)
  let now = beginOf(recording)
  const thinking = new Set<string>()
  const started = new Set<string>()
  const missing: string[] = []
  const recordedRuns = new Map(runs.map((run) => [run.id, run]))
  const stepsOf = Map.groupBy(steps, ({ runId }) => runId)
  const failedModels = new Set<string>()
  let app: Application

  const recordedRunOf = (runId: string) => recordedRuns.get(ids.recordedOf(runId) ?? '')

  async function identify(runId: string): Promise<void> {
    if (ids.recordedOf(runId) !== undefined) return
    const { prisma } = app.platform.db
    const run = await prisma.run.findUniqueOrThrow({ where: { id: runId } })
    const trigger = await prisma.message.findUnique({
      where: { id: run.triggerMessageId ?? '' },
      select: { seq: true },
    })
    const seq = trigger?.seq ?? null
    const seqOf = new Map(recording.messages.map((message) => [message.id, message.seq]))
    const found = runs.find(
      (one) =>
        ids.replayedOf(one.id) === undefined &&
        one.startedAt !== null &&
        one.agentId === run.agentId &&
        one.triggerType === run.triggerType &&
        (run.triggerType === 'INBOX' ||
          ((seqOf.get(one.triggerMessageId ?? '') ?? null) === seq && one.triggerName === run.triggerName)) &&
        (one.retryOfId === null) === (run.retryOfId === null),
    )
    if (found !== undefined) ids.link(found.id, runId)
  }

  async function learnMessages(): Promise<void> {
    const rows = await app.platform.db.prisma.message.findMany({
      where: { spaceId: heading.spaceId },
      select: { id: true, seq: true },
    })
    for (const { id, seq } of rows) {
      const recorded = recording.messages[seq - 1]
      if (recorded !== undefined) ids.link(recorded.id, id)
    }
  }

  /** Learns the ids that appear in the results of a run's calls. */
  async function learnCalls(runId: string): Promise<void> {
    const recorded = ids.recordedOf(runId)
    if (recorded === undefined) return
    const replayed = await app.platform.db.prisma.toolCall.findMany({ where: { runId } })
    for (const call of calls) {
      if (call.runId !== recorded) continue
      const same = replayed.find((one) => one.stepIndex === call.stepIndex && one.modelCallId === call.modelCallId)
      if (same === undefined) continue
      ids.link(call.id, same.id)
      ids.learn(call.output, same.output)
    }
  }

  async function answerModel(model: string, callOptions: CallOptions): Promise<ModelAnswer> {
    const context = logContext()
    if (context === undefined || !('runId' in context)) return { type: 'none' }
    const { runId, agentId } = context
    await learnMessages()
    await learnCalls(runId)
    const { stepCount } = await app.platform.db.prisma.run.findUniqueOrThrow({
      where: { id: runId },
      select: { stepCount: true },
    })
    const run = recordedRunOf(runId)
    const step = run === undefined ? undefined : (stepsOf.get(run.id) ?? []).find(({ index }) => index === stepCount)
    const given = await options.model?.({ model, agentId, options: callOptions, step })
    if (given != null) return given
    const failed = (step?.failedModels as { model: string; error: string }[] | undefined)?.find(
      (one) => one.model === model,
    )
    if (failed !== undefined && !failedModels.has(`${step?.id} ${model}`)) {
      failedModels.add(`${step?.id} ${model}`)
      return { type: 'failure', error: failed.error, fault: null, hasFallback: true }
    }
    if (step !== undefined) return { type: 'step', step: { ...step, assistant: ids.toReplay(step.assistant) } }
    if (run?.stopReason === 'MODEL_FAILED' && run.error !== null)
      return { type: 'failure', error: run.error, fault: run.fault }
    if (run?.status !== 'CANCELED') {
      const name = nameOf(recording, agentId)
      missing.push(
        run === undefined
          ? `${name} was woken, and the recording has no run of ${name} at this place.`
          : `${name} called its model for step ${stepCount}, and the recording has no such step.`,
      )
      if (options.isFree === true)
        return { type: 'failure', error: 'The recording has no answer of the model for this step.', fault: null }
    }
    return { type: 'none' }
  }

  async function completeAnswer(): Promise<void> {
    const context = logContext()
    if (context === undefined || !('runId' in context)) return
    const { stepCount } = await app.platform.db.prisma.run.findUniqueOrThrow({
      where: { id: context.runId },
      select: { stepCount: true },
    })
    if (options.isFree !== true) await gates.reach(`answer ${context.runId} ${stepCount}`, context.runId)
  }

  const usedAnswers = new Set<string>()

  async function answerCall(callId: string): Promise<RecordedAnswer> {
    const call = await app.platform.db.prisma.toolCall.findUniqueOrThrow({ where: { id: callId } })
    const run = ids.recordedOf(call.runId)
    const isSame = (one: (typeof calls)[number]) =>
      one.agentId === call.agentId && one.toolName === call.toolName && isOutside(one)
    const exact = calls.find(
      (one) => one.runId === run && one.stepIndex === call.stepIndex && one.modelCallId === call.modelCallId,
    )
    // A candidate may make the same call at another place.
    const found =
      exact ?? calls.find((one) => !usedAnswers.has(one.id) && isSame(one) && ids.areSame(one.input, call.input))
    const isUsable =
      found !== undefined && found.output !== null && (options.isFree !== true || ids.areSame(found.input, call.input))
    if (!isUsable) {
      missing.push(`The recording has no result of ${call.toolName}(${JSON.stringify(call.input)}).`)
      return { type: 'failure', code: 'NOT_RECORDED', message: 'The recording has no result of this call.' }
    }
    usedAnswers.add(found.id)
    ids.link(found.id, callId)
    if (options.isFree !== true) await gates.reach(`result ${found.id}`, call.runId)
    const output = ids.toReplay(found.output as Json)
    if (found.status !== 'FAILED') return { type: 'output', output }
    const {
      code = 'FAILED',
      message = '',
      details,
    } = ((output as JsonObject)['error'] ?? {}) as {
      code?: string
      message?: string
      details?: Json
    }
    return { type: 'failure', code, message, ...(details === undefined ? {} : { details }) }
  }

  const models = new Set(['demo', 'openai:gpt-5-mini'])
  for (const { model } of steps) models.add(model)
  for (const { row, table } of recording.castLines)
    if (table === 'Agent') for (const name of modelsIn(row)) models.add(name)
  for (const { definition } of recording.versions)
    for (const name of modelsIn(definition as unknown as JsonObject)) models.add(name)
  for (const change of options.changes?.values() ?? []) for (const name of modelsIn(change)) models.add(name)
  const modelParts = { answer: answerModel, complete: completeAnswer }
  const recordedModels = Object.fromEntries([...models].map((name) => [name, createRecordedModel(name, modelParts)]))
  const stored = (): StoredListing[] =>
    recording.mcpServers.map(({ name, url, listing }) => ({ name, url, listing: (listing ?? []) as never }))
  const config = { ...readConfig(settingsOf(folder, recording)), prices: new Map(Object.entries(heading.prices)) }
  app = await createApp(config, {
    clock: { now: () => now },
    models: { providers: [], extra: recordedModels },
    tools: { http: createRecordedHttp(answerCall), mcp: createRecordedMcp(answerCall, stored) },
    conductor: {
      mayThink: (agentId) => options.isFree === true || thinking.has(agentId),
      async reached(point) {
        if (options.isFree === true) {
          if (point.type === 'begin') await identify(point.runId)
          return
        }
        const { runId } = point
        if (point.type === 'begin') {
          if (started.has(runId)) return
          started.add(runId)
          await learnMessages()
          await identify(runId)
          thinking.delete(point.agentId)
          return gates.reach(`begin ${runId}`, runId)
        }
        if (point.type === 'plan') return gates.reach(`step ${runId} ${point.step}`, runId)
        return gates.reach(`post ${runId}`, runId)
      },
    },
  })

  let stall: Stall | null = null
  try {
    await writeCast(app, recording, options)
    await app.startWorker()
    for (const { at, action } of schedule) {
      if (options.isFree === true && isEngines(action)) continue
      now = Math.max(now, at)
      const reason = await perform(action)
      if (reason !== null && options.isFree !== true) {
        stall = { action, reason }
        break
      }
      await quiet()
    }
    if (stall === null) {
      gates.openAll()
      await quiet()
    }
    await learnMessages()
    for (const run of runs) {
      const replayed = ids.replayedOf(run.id)
      if (replayed !== undefined) await learnCalls(replayed)
    }
    const rows = await readRoom(app, heading.spaceId)
    return {
      rows,
      ids,
      stall,
      missing,
      runs: new Map(
        runs.flatMap(({ id }) => (ids.replayedOf(id) === undefined ? [] : [[id, String(ids.replayedOf(id))]])),
      ),
    }
  } finally {
    gates.openAll()
    await app.close(0)
  }

  /** Makes an action happen. Returns why it cannot happen, as a sentence; null if it has happened. */
  async function perform(action: Action): Promise<string | null> {
    const { domain } = app
    const replayed = (id: string) => ids.replayedOf(id)
    switch (action.type) {
      case 'say': {
        await learnMessages()
        const { senderId, mentionedIds, mentionedAgentId, replyToId } = action.message
        return tried(() =>
          domain.sending.send(personOf(senderId), {
            spaceId: heading.spaceId,
            text: textOf(action.message),
            mentionedAgentId,
            ...(mentionedIds.length === 0 ? {} : { mentionedIds }),
            replyToId: replyToId === null ? null : (replayed(replyToId) ?? null),
          }),
        )
      }
      case 'edit':
        return tried(() =>
          domain.messageChanges.edit(personOf(action.message.senderId), {
            messageId: replayed(action.message.id) ?? action.message.id,
            text: action.text,
          }),
        )
      case 'react': {
        const { messageId, emoji, entityId } = action.reaction
        return tried(() =>
          domain.messageChanges.react(personOf(entityId), { messageId: replayed(messageId) ?? messageId, emoji }),
        )
      }
      case 'join':
        return tried(() => domain.members.add(ADMIN, { spaceId: heading.spaceId, entityId: action.entityId }))
      case 'leave':
        return tried(() => domain.members.remove(ADMIN, { spaceId: heading.spaceId, entityId: action.entityId }))
      case 'version': {
        const { agentId, definition } = action.version
        return tried(() => domain.agents.update(ADMIN, changedInput(agentId, inputOf(agentId, definition), options)))
      }
      case 'make-plan': {
        const { plan, nextRunAt } = action
        const { id, agentId, name, instruction, cron, timeZone, originId, places, label, askers } = plan
        const data = { id, agentId, name, instruction, cron, timeZone, originId, places, label, askers }
        return tried(() =>
          app.platform.db.prisma.plan.create({
            data: { ...data, enabled: true, nextRunAt: nextRunAt === null ? null : new Date(nextRunAt) },
          }),
        )
      }
      case 'fire': {
        const planId = replayed(action.plan.id) ?? action.plan.id
        const { firing, plan } = action
        return tried(async () => {
          await domain.plans.runNow(ADMIN, { id: planId })
          // A plan that fires once is over after its slot.
          if (plan.cron === null && firing.slot !== firing.firedAt)
            await app.platform.db.prisma.plan.update({
              where: { id: planId },
              data: { enabled: false, nextRunAt: null },
            })
        })
      }
      case 'service': {
        const { agentId, name, payload, urgent } = action
        return tried(() => domain.control.triggerAgent(ADMIN, { agentId, serviceName: name, payload, urgent }))
      }
      case 'begin': {
        const { id, agentId, triggerType } = action.run
        if (triggerType === 'INBOX') {
          thinking.add(agentId)
          await app.platform.signals.publish(JOBS_CHANNEL, {})
        }
        return pass(() => `begin ${replayed(id)}`, `${nameOf(recording, agentId)} is not woken here.`)
      }
      case 'step': {
        const { id, agentId } = action.run
        const reason = `${nameOf(recording, agentId)} does not come to step ${action.index}.`
        const hasPassed = await pass(() => `step ${replayed(id)} ${action.index}`, reason)
        return action.isOptional ? null : hasPassed
      }
      case 'answer': {
        const { id, agentId } = action.run
        const reason = `${nameOf(recording, agentId)} does not call its model for step ${action.index}.`
        const hasPassed = await pass(() => `answer ${replayed(id)} ${action.index}`, reason)
        return action.isOptional ? null : hasPassed
      }
      case 'post': {
        const { runId, seq, senderId } = action.message
        const gate = () => `post ${replayed(runId ?? '')}`
        const reason = await pass(gate, `${nameOf(recording, senderId)} does not post the message ${seq}.`)
        if (reason !== null) return reason
        const isThere = await waitFor(async () => {
          // An attempt that was refused in the recording, too.
          if (gates.isWaiting(gate())) gates.release(gate())
          return (await app.platform.db.prisma.message.count({ where: { spaceId: heading.spaceId, seq } })) > 0
        })
        return isThere ? null : `${nameOf(recording, senderId)} does not post the message ${seq}.`
      }
      case 'result':
        // A call that was refused before it left the server has no result from outside.
        await pass(() => `result ${action.call.id}`, '')
        return null
      case 'decide': {
        const { call, decision, input } = action
        const toolCallId = await replayedCall(call)
        if (toolCallId === null) return `The call of ${call.toolName} on which people decide is not made.`
        const { humanId, approve, reason } = decision
        return tried(() =>
          domain.control.decideToolCall(personOf(humanId), {
            toolCallId,
            approve,
            reason,
            ...(input === null ? {} : { input: ids.toReplay(input) }),
          } as never),
        )
      }
      case 'submit': {
        const { call } = action
        const toolCallId = await replayedCall(call)
        if (toolCallId === null) return `The call of ${call.toolName}, which is answered here, is not made.`
        const viewer = call.answeredById === null ? ADMIN : personOf(call.answeredById)
        return tried(() => domain.control.submitToolResult(viewer, { toolCallId, result: ids.toReplay(call.output) }))
      }
      case 'expire': {
        const { call, isApproval } = action
        const toolCallId = await replayedCall(call)
        if (toolCallId === null) return `The call of ${call.toolName}, whose time ends here, is not made.`
        await makeCallDue(app.platform.db.prisma, toolCallId, isApproval ? 'approval' : 'result')
        const isOver = await waitFor(async () => {
          const row = await app.platform.db.prisma.toolCall.findUnique({
            where: { id: toolCallId },
            select: { settledAt: true },
          })
          return row?.settledAt != null
        })
        return isOver ? null : `The time of the call of ${call.toolName} does not end.`
      }
      case 'stop': {
        const { id, stoppedById } = action.run
        const runId = replayed(id)
        if (runId === undefined) return `The run that is stopped here does not exist.`
        const viewer = stoppedById === null ? ADMIN : personOf(stoppedById)
        gates.openRun(runId)
        return tried(() => domain.control.stopRun(viewer, { runId, cascade: false }))
      }
      case 'retry': {
        const runId = replayed(action.run.retryOfId ?? '')
        if (runId === undefined) return 'The run that is repeated here does not exist.'
        return tried(() => domain.control.retryRun(ADMIN, { runId }))
      }
    }
  }

  async function replayedCall(call: (typeof calls)[number]): Promise<string | null> {
    const runId = ids.replayedOf(call.runId)
    if (runId === undefined) return null
    let found: string | null = null
    await waitFor(async () => {
      const row = await app.platform.db.prisma.toolCall.findFirst({
        where:
          options.isFree === true
            ? { agentId: call.agentId, toolName: call.toolName, status: 'WAITING' }
            : { runId, stepIndex: call.stepIndex, modelCallId: call.modelCallId, status: { not: 'STREAMING' } },
        select: { id: true },
      })
      found = row?.id ?? null
      return found !== null
    })
    return found
  }

  /** Waits until something waits at a gate, and releases it. */
  async function pass(gate: () => string, otherwise: string): Promise<string | null> {
    return (await waitFor(async () => gates.release(gate()))) ? null : otherwise
  }

  /** Waits for a fact, as long as the engine is at work. */
  async function waitFor(isSo: () => Promise<boolean>): Promise<boolean> {
    const startedAt = performance.now()
    let quietSince: number | null = null
    for (;;) {
      if (await isSo()) return true
      const at = performance.now()
      quietSince = (await isQuiet()) ? (quietSince ?? at) : null
      if (quietSince !== null && at - quietSince > STALL_MS) return false
      if (at - startedAt > LONGEST_WAIT_MS) return false
      await sleep(POLL_MS)
    }
  }

  /** Waits until nothing moves. */
  async function quiet(): Promise<void> {
    const until = performance.now() + LONGEST_WAIT_MS
    while (!(await isQuiet()) && performance.now() < until) await sleep(POLL_MS)
  }

  /** Whether every run has ended, waits, or is held at a gate. */
  async function isQuiet(): Promise<boolean> {
    const { prisma } = app.platform.db
    const [active, events, approved] = await Promise.all([
      prisma.run.findMany({
        where: {
          OR: [
            { status: 'RUNNING' },
            { status: { in: ['QUEUED', 'WAITING_TOOL'] }, claimableAt: { lte: new Date(Date.now() + SOON_MS) } },
          ],
        },
        select: { id: true, status: true, agentId: true },
      }),
      prisma.inboxEvent.findMany({
        where: { doneAt: null, runId: null, quiet: false, waitsUntil: null, retryAt: null },
        select: { agentId: true },
      }),
      prisma.toolCall.findMany({ where: { carryAt: { not: null }, settledAt: null }, select: { runId: true } }),
    ])
    const waits = async (runId: string) =>
      (await prisma.toolCall.count({ where: { runId, status: 'WAITING', approvalState: null, execution: null } })) > 0
    const running = active.filter(({ status }) => status === 'RUNNING')
    for (const { id, status, agentId } of active) {
      if (gates.isHeld(id)) continue
      if (
        status === 'QUEUED' &&
        running.filter((one) => one.agentId === agentId).length > 0 &&
        (await isFull(agentId, running))
      )
        continue
      if (status === 'RUNNING' && (await waits(id))) continue
      return false
    }
    if (approved.some(({ runId }) => !gates.isHeld(runId))) return false
    const cycling = new Set(active.map(({ agentId }) => agentId))
    return events.every(({ agentId }) => cycling.has(agentId) || !(options.isFree === true || thinking.has(agentId)))
  }

  async function isFull(agentId: string, running: { agentId: string }[]): Promise<boolean> {
    const agent = await app.platform.db.prisma.agent.findUnique({
      where: { id: agentId },
      select: { maxConcurrentRuns: true },
    })
    return running.filter((one) => one.agentId === agentId).length >= (agent?.maxConcurrentRuns ?? 1)
  }
}

/** Whether the engine does this by itself, if nothing holds it. */
const isEngines = ({ type }: ScheduledAction['action']): boolean =>
  ['begin', 'step', 'answer', 'post', 'result'].includes(type)

async function tried(work: () => Promise<unknown>): Promise<string | null> {
  try {
    await work()
    return null
  } catch (error) {
    return `The replay cannot repeat what people did: ${messageOf(error)}`
  }
}

/** The name of a person or agent of a recording. */
export function nameOf({ entities }: Pick<RoomRows, 'entities'>, id: string): string {
  return entities.find((one) => one.id === id)?.name ?? id
}

function modelsIn(row: Record<string, unknown>): string[] {
  const phases = (row['phases'] ?? []) as { model?: string | null }[]
  const names = [row['model'], ...((row['fallbackModels'] ?? []) as unknown[]), ...phases.map(({ model }) => model)]
  return names.filter((name): name is string => typeof name === 'string')
}

function settingsOf(folder: string, { heading: { limits } }: Recording): Record<string, string> {
  return {
    DATA_DIR: folder,
    PARLEY_ADMIN_TOKEN: randomBytes(24).toString('hex'),
    PARLEY_SECRET_KEY: randomBytes(24).toString('hex'),
    PARLEY_LOG_LEVEL: 'silent',
    PARLEY_CYCLE_REST_MS: '0',
    PARLEY_DELTA_MS: '0',
    PARLEY_DIRECTORY: 'everyone',
    PARLEY_ALLOW_PRIVATE_TOOLS: 'true',
    PARLEY_DEFAULT_MODEL: 'demo',
    PARLEY_MAX_RUN_SECONDS: String(limits.maxRunSeconds),
    PARLEY_TOOL_WAIT_SECONDS: String(limits.toolWaitSeconds),
    PARLEY_APPROVAL_WAIT_SECONDS: String(limits.approvalWaitSeconds),
    PARLEY_MAX_CHAIN_DEPTH: String(limits.maxChainDepth),
    PARLEY_MAX_ROOT_RUNS: String(limits.maxRootRuns),
    PARLEY_MAX_REPLY_STACK: String(limits.maxReplyStack),
    PARLEY_HISTORY_LIMIT: String(limits.historyLimit),
  }
}

/** Writes the people, the agents as they were at the beginning, and the empty space. */
async function writeCast(app: Application, recording: Recording, options: PlayOptions): Promise<void> {
  const { heading, castLines, memories, goals, versions, entities } = recording
  const begun = beginOf(recording)
  const { initial } = firstMembers(recording)
  const isFirst = ({ table, row }: Recording['castLines'][number]) =>
    table === 'FormerMember' ? false : table !== 'Membership' || initial.includes(String(row['entityId']))
  const lines = castLines.filter(isFirst).map(({ table, row }) => {
    if (table === 'Space')
      return {
        table,
        row: { ...row, lastSeq: 0, firstSeq: 1, version: 0, lastPickedId: null, lastPickedJoinedAt: null },
      }
    if (table === 'StandingGrant') return { table, row: { ...row, usedCalls: 0, usedAmount: 0 } }
    if (table === 'Membership') return { table, row: { ...row, lastReadSeq: 0 } }
    return { table, row }
  })
  const former = recording.formerMembers
    .filter(({ entityId }) => initial.includes(entityId))
    .map(({ entityId, spaceId }) => ({
      table: 'Membership',
      row: { spaceId, entityId, joinedAt: recording.space.createdAt },
    }))
  // An import leaves out people and agents without a relation to the space.
  const later = entities
    .filter(({ id }) => !initial.includes(id))
    .map(({ id: entityId }) => ({ table: 'FormerMember', row: { spaceId: heading.spaceId, entityId } }))
  const all = [...lines, ...later, ...former]
  const first = { format: FORMAT, version: FORMAT_VERSION, spaceId: heading.spaceId, at: heading.at }
  const { db, files, config } = app.platform
  await importSpace(
    { db, files, config },
    [first, ...all, { end: true, rows: all.length }].map((line) => JSON.stringify(line)),
  )
  const { prisma } = db
  const isOld = ({ updatedAt }: { updatedAt: string }) => Date.parse(updatedAt) < begun
  await prisma.memory.createMany({ data: memories.filter(isOld) as never })
  await prisma.goal.createMany({ data: goals.filter(isOld) as never })
  for (const { id } of entities) {
    if (!id.startsWith('agt_')) continue
    const own = versions.filter(({ agentId }) => agentId === id)
    const then = own.findLast(({ createdAt }) => Date.parse(createdAt) <= begun) ?? own[0]
    const isLast = then === undefined || then === own.at(-1)
    if (isLast && options.changes?.has(id) !== true) continue
    const input = then === undefined || isLast ? { id } : inputOf(id, then.definition)
    await app.domain.agents.update(ADMIN, changedInput(id, input, options))
  }
}

const changedInput = <T extends { id: string }>(id: string, input: T, { changes }: PlayOptions): T => ({
  ...input,
  ...changes?.get(id),
})

/** Reads the rows of the replay as a recording of it would contain them. */
async function readRoom({ platform }: Application, spaceId: string): Promise<RoomRows> {
  const tables: Tables = new Map()
  for await (const { table, row } of readMovedRows(platform.db, spaceId, runsOfSpace(spaceId))) {
    // The same form as a recording: as JSON.
    const value = JSON.parse(JSON.stringify(row)) as Record<string, unknown>
    tables.set(table, [...(tables.get(table) ?? []), value])
  }
  return roomOf(tables)
}

export const isEndedStatus = (status: string): boolean => ENDED.includes(status)
