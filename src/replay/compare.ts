import type { Outcome, Run, Step, ToolCall } from '../generated/prisma/client.ts'
import { ENDED_RUN_STATUSES, isFinalMessage } from '../rules/statuses.ts'
import { answerOf } from './assistant.ts'
import { gapsOf } from './changes.ts'
import type { IdMap } from './ids.ts'
import { inventedInPreview, isMomentary } from './momentary.ts'
import type { Action } from './order.ts'
import type { Played, Stall } from './player.ts'
import { compareInstructions, compareLists, compareMessages } from './prompts.ts'
import { omissionOf, type Recorded, type Recording, type RoomRows } from './recording.ts'
import { beginOf } from './schedule.ts'
import { createWording, unquotedIn, type Wording, wordedEnd, wordedOutcome, wordedResult } from './wording.ts'
import { nameOf } from './world.ts'

const isEndedStatus = (status: string): boolean => ENDED_RUN_STATUSES.some((ended) => ended === status)

/** The kind of a difference. */
export type DivergenceKind = 'wake-up' | 'prompt' | 'call' | 'arguments' | 'message' | 'budget' | 'end'

/** The first difference between a recording and its replay. */
export interface Divergence {
  kind: DivergenceKind
  /** A sentence about the location: the agent, the run and its step. */
  where: string
  /** The recorded value as text. The next field is the replayed value. */
  recorded: string
  replayed: string
  /** A sentence about the cause. */
  cause: string
}

export interface Comparison {
  divergence: Divergence | null
  /** Differences in wording only, for example because the server's own instructions are newer. */
  notes: string[]
}

/** A comparison of the recording and the replay at one point. */
interface Check {
  at: number
  /** The order of checks that have the same time. */
  rank: number
  /** The recorded run that this check concerns. */
  runId?: string | null
  run(): Finding | null
}

/**
 * `isAbsent` says that something is missing from the replay, perhaps because the replay could not follow the recording
 * to the end.
 */
type Finding = Divergence & { isAbsent?: boolean }

/** Compares a replay with its recording, in the order of events, up to the first divergence. */
export function compare(recording: Recording, { rows, ids, stall }: Played): Comparison {
  const notes = new Set(gapsOf(recording, beginOf(recording)))
  const known = new Set([
    recording.heading.spaceId,
    ...recording.entities.map(({ id }) => id),
    ...recording.runs.map(({ id }) => id),
    ...recording.messages.map(({ id }) => id),
    ...recording.calls.map(({ id }) => id),
  ])
  const isKnown = (id: string) => known.has(id) || !['spc', 'run', 'agt', 'hum'].includes(id.slice(0, 3))
  const replayedRun = (run: Recorded<Run>) => rows.runs.find(({ id }) => id === ids.replayedOf(run.id))
  const replayedCall = ({ runId, stepIndex, modelCallId }: Recorded<ToolCall>) =>
    rows.calls.find(
      (one) => one.runId === ids.replayedOf(runId) && one.stepIndex === stepIndex && one.modelCallId === modelCallId,
    )
  const wording = createWording(ids, unquotedIn(recording))
  for (const call of recording.calls) {
    const same = replayedCall(call)
    if (same !== undefined) wording.pair(wordedResult(call), wordedResult(same))
  }
  const input: Input = { recording, rows, ids, isKnown, notes, wording, replayedRun, replayedCall }
  const checks = [
    ...recording.runs.flatMap((run) => checksOfRun(input, run)),
    ...recording.messages.flatMap((message) => checksOfMessage(input, message)),
    ...recording.outcomes.map((outcome) => checkOfOutcome(input, outcome)),
    ...checksOfAdditions(input),
  ].toSorted((a, b) => a.at - b.at || a.rank - b.rank)
  const found = firstOf(checks)
  if (found === null && stall === null) return { divergence: null, notes: [...notes] }
  const divergence = whereItBegan(recording, { found, stall, checks })
  return { divergence, notes: [...notes, ...omissionOf(recording)] }
}

function firstOf(checks: readonly Check[]): Finding | null {
  for (const check of checks) {
    const found = check.run()
    if (found !== null) return found
  }
  return null
}

/**
 * If the replay stopped, everything later is missing. A difference of the run at which it stopped is then reported
 * first.
 */
function whereItBegan(
  recording: Recording,
  { found, stall, checks }: { found: Finding | null; stall: Stall | null; checks: readonly Check[] },
): Divergence | null {
  if (stall === null || (found !== null && found.isAbsent !== true)) return withoutFlag(found)
  const runId = runOfAction(stall.action)
  const own = runId === null ? null : firstOf(checks.filter((check) => check.runId === runId))
  return withoutFlag(own ?? found) ?? ofStall(recording, stall)
}

function withoutFlag(found: Finding | null): Divergence | null {
  if (found === null) return null
  const { isAbsent: _, ...divergence } = found
  return divergence
}

/** Returns the recorded run to which an action belongs. */
function runOfAction(action: Action): string | null {
  if ('run' in action) return action.run.id
  if ('call' in action) return action.call.runId
  return 'message' in action ? action.message.runId : null
}

interface Input {
  recording: Recording
  rows: RoomRows
  ids: IdMap
  isKnown(id: string): boolean
  notes: Set<string>
  wording: Wording
  replayedRun(run: Recorded<Run>): Recorded<Run> | undefined
  replayedCall(call: Recorded<ToolCall>): Recorded<ToolCall> | undefined
}

const json = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
const timeOf = (at: string | null | undefined): number => (at == null ? Number.POSITIVE_INFINITY : Date.parse(at))

function checksOfRun(input: Input, run: Recorded<Run>): Check[] {
  const { recording, rows, replayedRun } = input
  const name = nameOf(recording, run.agentId)
  const where = `The run ${run.id} of ${name}`
  const trigger = recording.messages.find(({ id }) => id === run.triggerMessageId)
  const checks: Check[] = [
    {
      at: Math.max(timeOf(run.queuedAt), trigger === undefined ? 0 : Date.parse(trigger.routedAt ?? trigger.createdAt)),
      // The parts of the trigger have lower ranks, so they are compared first.
      rank: 7,
      run() {
        if (run.startedAt === null || replayedRun(run) !== undefined) return null
        const recorded = `${name} was woken: ${run.triggerSummary}`
        return {
          kind: 'wake-up',
          where,
          recorded,
          replayed: `${name} was not woken`,
          cause: causeOfSilence(input, run),
          isAbsent: true,
        }
      },
    },
  ]
  const steps = recording.steps.filter(({ runId }) => runId === run.id)
  const calls = recording.calls.filter(({ runId }) => runId === run.id)
  for (const step of steps) {
    const place = `${where}, step ${step.index}`
    const replayedStep = () => {
      const replayed = replayedRun(run)
      return rows.steps.find(({ runId, index }) => runId === replayed?.id && index === step.index)
    }
    checks.push({
      at: timeOf(step.startedAt),
      rank: 2,
      run: () => comparePrompt(input, { run, step, place, replayedStep }),
    })
    const endedAt = timeOf(step.startedAt) + (step.durationMs ?? 0)
    checks.push({
      at: endedAt,
      rank: 3,
      run() {
        const replayed = replayedStep()
        return replayed === undefined ? null : compareAnswer(input, { step, replayed, place })
      },
    })
    for (const call of calls.filter(({ stepIndex }) => stepIndex === step.index)) {
      checks.push({ at: endedAt, rank: 4, run: () => compareArguments(input, call, place) })
      checks.push({ at: timeOf(call.settledAt), rank: 5, run: () => compareResult(input, { call, step, place }) })
    }
  }
  checks.push({ at: timeOf(run.finishedAt), rank: 9, run: () => compareEnd(input, run, where) })
  return checks.map((check) => ({ ...check, runId: run.id }))
}

/** Describes why an agent was not woken. Uses the outcome of the message. */
function causeOfSilence({ rows, ids }: Input, run: Recorded<Run>): string {
  const messageId = ids.replayedOf(run.triggerMessageId ?? '')
  const outcome = rows.outcomes.find((one) => one.messageId === messageId && one.agentId === run.agentId)
  if (outcome !== undefined) return `In the replay the outcome of the message for the agent is ${outcomeText(outcome)}.`
  return messageId === undefined && run.triggerMessageId !== null
    ? 'The message that woke the agent does not exist in the replay.'
    : 'No event in the replay woke the agent.'
}

const outcomeText = ({ kind, reason, error }: Pick<Outcome, 'kind' | 'reason' | 'error'>) =>
  [kind, ...[reason ?? error].flatMap((why) => (why === null ? [] : [`(${why})`]))].join(' ')

interface StepPlace {
  run: Recorded<Run>
  step: Recorded<Step>
  place: string
}

function comparePrompt(
  input: Input,
  { replayedStep, ...at }: StepPlace & { replayedStep(): Recorded<Step> | undefined },
): Finding | null {
  const { step, place: where } = at
  const replayed = replayedStep()
  if (replayed === undefined) return missingStep(input, at)
  if (step.model !== replayed.model)
    return {
      kind: 'prompt',
      where,
      recorded: step.model,
      replayed: replayed.model,
      cause: 'A different model was called.',
    }
  return (
    compareStepInstructions(input, at, replayed) ??
    compareStepMessages(input, at, replayed) ??
    compareTools(input, at, replayed)
  )
}

/** Converts the text of an error to a sentence. */
const asSentence = (error: string | null | undefined): string | null =>
  error == null ? null : /[.!?]$/.test(error) ? error : `${error}.`

function missingStep({ replayedRun }: Input, { run, place: where }: StepPlace): Finding {
  const other = replayedRun(run)
  const isOver = other !== undefined && isEndedStatus(other.status)
  const end = isOver ? `ended ${other.status} (${other.stopReason})` : 'did not reach this step'
  const isBudget = other?.stopReason === 'OVER_BUDGET' || other?.stopReason === 'TOKEN_BUDGET'
  return {
    kind: isBudget ? 'budget' : 'end',
    where,
    recorded: 'The run continued.',
    replayed: `The run ${end}.`,
    cause: asSentence(other?.error) ?? 'The run has fewer steps in the replay.',
    isAbsent: !isOver,
  }
}

/**
 * Returns a function that tells whether a run may be missing from the list of the agent's runs that was read for this
 * step.
 */
const momentaryAt = (recording: Recording, step: Recorded<Step>) => (runId: string) => {
  const other = recording.runs.find(({ id }) => id === runId)
  return other !== undefined && isMomentary(recording, step, other)
}

/** A step without instructions has the same ones as the previous step, or the recording omits them. */
function compareStepInstructions(
  { ids, isKnown, notes, recording, rows, wording }: Input,
  { run, step, place: where }: StepPlace,
  replayed: Recorded<Step>,
): Divergence | null {
  if (recording.heading.hasOtherConfidential) {
    notes.add(
      'Instructions were not compared: the recording omits them, because its server has other confidential spaces.',
    )
    return null
  }
  const inForce = (steps: readonly Recorded<Step>[], runId: string) =>
    steps.findLast((one) => one.runId === runId && one.index <= step.index && one.instructions !== null)
      ?.instructions ?? ''
  if (step.instructions === null && replayed.instructions === null) return null
  const mayMiss = momentaryAt(recording, step)
  const [before, after] = [inForce(recording.steps, run.id), inForce(rows.steps, replayed.runId)]
  for (const one of compareInstructions(before, after, { ids, wording, isKnown, mayMiss })) {
    if (!one.isWording)
      return {
        kind: 'prompt',
        where,
        recorded: one.recorded,
        replayed: one.replayed,
        cause: `The prompt differs in ${one.what}.`,
      }
    notes.add(`Prompts differ in the server's own wording (${one.what}).`)
  }
  return null
}

function compareStepMessages(
  { ids, notes, recording, wording }: Input,
  { run, step, place: where }: StepPlace,
  replayed: Recorded<Step>,
): Divergence | null {
  const [invented] = inventedInPreview(recording, run.agentId, step)
  if (invented !== undefined)
    return {
      kind: 'prompt',
      where,
      recorded: invented,
      replayed: '(nothing)',
      cause: 'The inbox preview shows an event that does not exist.',
    }
  const difference = compareMessages(step.messagesAdded, replayed.messagesAdded, { ids, wording })
  if (difference === null) return null
  if (!difference.isWording)
    return {
      kind: 'prompt',
      where,
      ...firstDifferentLines(difference, ids),
      cause: `The prompt differs in ${difference.what}.`,
    }
  notes.add("Prompts differ in the server's own wording (the messages).")
  return null
}

function compareTools(
  { notes }: Input,
  { step, place: where }: StepPlace,
  { activeTools }: Recorded<Step>,
): Divergence | null {
  const gone = step.activeTools.filter((tool) => !activeTools.includes(tool))
  if (gone.length > 0)
    return {
      kind: 'prompt',
      where,
      recorded: step.activeTools.join(', '),
      replayed: activeTools.join(', '),
      cause: `The model is not offered ${gone.join(', ')}.`,
    }
  for (const tool of activeTools)
    if (!step.activeTools.includes(tool)) notes.add(`This release offers models an additional tool: ${tool}.`)
  return null
}

/** Shortens two texts to the first lines in which they differ. */
function firstDifferentLines({ recorded, replayed }: { recorded: string; replayed: string }, ids: IdMap) {
  const [a, b] = [recorded.split('\n'), replayed.split('\n')]
  const index = a.findIndex((line, at) => b[at] === undefined || !ids.areSame(line, b[at]))
  const at = index === -1 ? a.length : index
  return { recorded: a[at] ?? '(nothing)', replayed: b[at] ?? '(nothing)' }
}

function compareAnswer(
  { ids }: Input,
  { step, replayed, place }: { step: Recorded<Step>; replayed: Recorded<Step>; place: string },
): Divergence | null {
  const [recorded, other] = [answerOf(step), answerOf(replayed)]
  if (
    recorded.calls.length !== other.calls.length ||
    recorded.calls.some(({ toolName }, index) => toolName !== other.calls[index]?.toolName)
  ) {
    const names = ({ calls }: typeof recorded) => calls.map(({ toolName }) => toolName).join(', ') || '(no call)'
    return {
      kind: 'call',
      where: place,
      recorded: names(recorded),
      replayed: names(other),
      cause: 'The model called different tools.',
    }
  }
  const index = recorded.calls.findIndex(({ input }, at) => !ids.areSame(input, other.calls[at]?.input))
  if (index !== -1)
    return {
      kind: 'arguments',
      where: `${place}, ${recorded.calls[index]?.toolName}`,
      recorded: json(recorded.calls[index]?.input),
      replayed: json(other.calls[index]?.input),
      cause: 'The model called the tool with different arguments.',
    }
  if (!ids.areSame(recorded.text, other.text))
    return {
      kind: 'end',
      where: place,
      recorded: recorded.text,
      replayed: other.text,
      cause: "The model's own text differs.",
    }
  return compareUsage(step, replayed, place)
}

type Usage = Pick<Recorded<Step>, 'inputTokens' | 'outputTokens' | 'costNanos'>

function compareUsage(recorded: Usage, replayed: Usage, where: string): Divergence | null {
  for (const field of ['inputTokens', 'outputTokens', 'costNanos'] as const)
    if (recorded[field] !== replayed[field])
      return {
        kind: 'budget',
        where,
        recorded: `${field}: ${recorded[field]}`,
        replayed: `${field}: ${replayed[field]}`,
        cause: 'The usage differs.',
      }
  return null
}

function compareArguments({ ids, replayedCall }: Input, call: Recorded<ToolCall>, place: string): Divergence | null {
  const same = replayedCall(call)
  if (same !== undefined && call.toolName !== same.toolName)
    return {
      kind: 'call',
      where: place,
      recorded: call.toolName,
      replayed: same.toolName,
      cause: 'A different tool was executed.',
    }
  if (same === undefined || ids.areSame(call.input, same.input)) return null
  return {
    kind: 'arguments',
    where: `${place}, ${call.toolName}`,
    recorded: json(call.input),
    replayed: json(same.input),
    cause: 'The call was executed with different arguments.',
  }
}

/** The names of the tool that lists the agent's other runs. */
const LISTS_RUNS = new Set(['get_my_runs', 'getMyRuns'])

function compareResult(
  { ids, isKnown, notes, recording, replayedCall, wording }: Input,
  { call, step, place }: { call: Recorded<ToolCall>; step: Recorded<Step>; place: string },
): Finding | null {
  const where = `${place}, ${call.toolName}`
  if (call.settledAt === null) return null
  const textOf = ({ status, output, approvalState }: Recorded<ToolCall>) =>
    `${status}${approvalState === null ? '' : `, approval ${approvalState}`}: ${json(output)}`
  const same = replayedCall(call)
  if (same === undefined)
    return {
      kind: 'call',
      where,
      recorded: textOf(call),
      replayed: '(no such call)',
      cause: 'The call was not made.',
      isAbsent: true,
    }
  const isList = LISTS_RUNS.has(call.toolName) && call.status === 'DONE'
  // The call is executed after its step, so the state before the next step matters.
  const mayMiss = momentaryAt(recording, { ...step, index: step.index + 1, startedAt: call.settledAt })
  if (call.status === same.status && call.approvalState === same.approvalState) {
    const found = isList
      ? compareLists(call.output, same.output, { ids, wording, isKnown, mayMiss })
      : wording.compare(wordedResult(call), wordedResult(same))
    if (found === 'wording') notes.add(`The result of ${call.toolName} differs in the server's own wording.`)
    if (found !== 'different') return null
  }
  return {
    kind: 'call',
    where,
    recorded: textOf(call),
    replayed: textOf(same),
    cause: asSentence(same.error) ?? 'The result of the call differs.',
    isAbsent: same.settledAt === null,
  }
}

function compareEnd(
  { notes, recording, rows, replayedRun, wording }: Input,
  run: Recorded<Run>,
  where: string,
): Finding | null {
  const replayed = replayedRun(run)
  if (replayed === undefined || !isEndedStatus(run.status)) return null
  const textOf = ({ status, stopReason, fault, error, summary }: Recorded<Run>) =>
    [status, stopReason, fault, error ?? summary].filter((part) => part !== null).join(', ')
  const isSameEnd = run.status === replayed.status && run.stopReason === replayed.stopReason
  if (isSameEnd) {
    const found = wording.compare(wordedEnd(run, recording), wordedEnd(replayed, rows))
    if (found === 'wording') notes.add("The error of a run differs in the server's own wording.")
    // The usage of a run that was cut off, or whose stream broke, is only an estimate, so it is not compared.
    const isExact = run.status === 'COMPLETED' && !run.usageEstimated
    if (found !== 'different') return isExact ? compareUsage(run, replayed, where) : null
  }
  const isBudget = [run.stopReason, replayed.stopReason].some(
    (reason) => reason === 'OVER_BUDGET' || reason === 'TOKEN_BUDGET',
  )
  return {
    kind: isBudget && !isSameEnd ? 'budget' : 'end',
    where,
    recorded: textOf(run),
    replayed: textOf(replayed),
    cause: asSentence(replayed.error) ?? 'The run ended differently.',
    isAbsent: !isEndedStatus(replayed.status),
  }
}

/**
 * A message is posted when it begins, but compared when it is complete. Until then, a call that it shows can wait for
 * people.
 */
function checksOfMessage({ recording, rows, ids }: Input, message: RoomRows['messages'][number]): Check[] {
  const where = `Message ${message.seq}, from ${nameOf(recording, message.senderId)}`
  const same = rows.messages.find(({ seq }) => seq === message.seq)
  const shown = ({ senderId, parts, status, mentionedAgentId, replyToId, deletedAt }: typeof message) => ({
    senderId,
    parts,
    status,
    mentionedAgentId,
    replyToId,
    isDeleted: deletedAt !== null,
  })
  if (same === undefined) {
    const missing: Finding = {
      kind: 'message',
      where,
      recorded: json(message.parts),
      replayed: '(no message)',
      cause: 'The message was not posted.',
      isAbsent: true,
    }
    return [{ at: Date.parse(message.createdAt), rank: 6, runId: message.runId, run: () => missing }]
  }
  const differs = (): Finding => ({
    kind: 'message',
    where,
    recorded: json(shown(message)),
    replayed: json(shown(same)),
    cause: 'The message differs.',
    isAbsent: !isFinalMessage(same.status),
  })
  return [
    {
      at: Date.parse(message.routedAt ?? message.createdAt),
      rank: 6,
      runId: message.runId,
      run: () => (ids.areSame(shown(message), shown(same)) ? null : differs()),
    },
  ]
}

/** The outcomes of messages that are set at the end of a run. */
const OF_ENDS = ['SKIPPED', 'FAILED']

function checkOfOutcome({ notes, recording, rows, replayedRun, wording }: Input, outcome: Recorded<Outcome>): Check {
  const message = recording.messages.find(({ id }) => id === outcome.messageId)
  const where = `The outcome of message ${message?.seq} for ${nameOf(recording, outcome.agentId)}`
  const seqs = rows.messages.find(({ seq }) => seq === message?.seq)
  const same = rows.outcomes.find(({ messageId, agentId }) => messageId === seqs?.id && agentId === outcome.agentId)
  const run = recording.runs.find(({ id }) => id === outcome.runId)
  const isOfEnd = OF_ENDS.includes(outcome.kind) || OF_ENDS.includes(same?.kind ?? '')
  return {
    at: timeOf(run !== undefined && isOfEnd ? run.finishedAt : message?.createdAt),
    // The end of the run causes the outcome, so it has a lower rank and is compared first.
    rank: 10,
    run() {
      // The outcome of a run that has not ended can still change.
      if (run !== undefined && (!isEndedStatus(run.status) || !isEndedStatus(replayedRun(run)?.status ?? '')))
        return null
      const found = same === undefined ? 'different' : wording.compare(wordedOutcome(outcome), wordedOutcome(same))
      if (found === 'wording') notes.add("The reason of an outcome differs in the server's own wording.")
      if (found !== 'different') return null
      return {
        kind: 'wake-up',
        where,
        recorded: outcomeText(outcome),
        replayed: same === undefined ? '(no outcome)' : outcomeText(same),
        cause: 'Routing decided differently.',
      }
    },
  }
}

/** Returns checks for runs and messages that only the replay contains. */
function checksOfAdditions(input: Input): Check[] {
  const { recording, rows, ids } = input
  const end = Number.MAX_SAFE_INTEGER
  const runs = rows.runs
    .filter(({ id, startedAt }) => startedAt !== null && ids.recordedOf(id) === undefined)
    .map((run): Check => {
      const trigger = recording.messages.find(({ id }) => ids.replayedOf(id) === run.triggerMessageId)
      const name = nameOf(recording, run.agentId)
      return {
        at: trigger === undefined ? end : Date.parse(trigger.createdAt),
        rank: 8,
        run: () => ({
          kind: 'wake-up',
          where: trigger === undefined ? `A run of ${name}` : `Message ${trigger.seq}`,
          recorded: `${name} was not woken`,
          replayed: `${name} was woken: ${run.triggerSummary}`,
          cause: 'The replay has a run that the recording does not have.',
        }),
      }
    })
  const messages = rows.messages
    .filter(({ seq }) => seq > recording.messages.length)
    .map(
      (message): Check => ({
        at: end,
        rank: 9,
        run: () => ({
          kind: 'message',
          where: `Message ${message.seq}, from ${nameOf(recording, message.senderId)}`,
          recorded: '(no message)',
          replayed: json(message.parts),
          cause: 'The replay has a message that the recording does not have.',
        }),
      }),
    )
  return [...runs, ...messages, ...addedCalls(input), ...addedOutcomes(input)]
}

/** Returns checks for calls of recorded runs that only the replay contains. */
function addedCalls({ recording, rows, ids }: Input): Check[] {
  const places = new Set(recording.calls.map(placeOfCall))
  return rows.calls.flatMap((call) => {
    const { agentId, stepIndex, toolName } = call
    const runId = ids.recordedOf(call.runId)
    const step = recording.steps.find((one) => one.runId === runId && one.index === stepIndex)
    if (runId === undefined || step === undefined || places.has(placeOfCall({ ...call, runId }))) return []
    const divergence: Divergence = {
      kind: 'call',
      where: `The run ${runId} of ${nameOf(recording, agentId)}, step ${stepIndex}, ${toolName}`,
      recorded: '(no such call)',
      replayed: json(call.input),
      cause: 'The replay has a call that the recording does not have.',
    }
    return [{ at: timeOf(step.startedAt) + (step.durationMs ?? 0), rank: 4, run: () => divergence }]
  })
}

const placeOfCall = ({
  runId,
  stepIndex,
  modelCallId,
}: Pick<Recorded<ToolCall>, 'runId' | 'stepIndex' | 'modelCallId'>) => `${runId} ${stepIndex} ${modelCallId}`

/** Returns checks for outcomes of recorded messages that only the replay contains. */
function addedOutcomes({ recording, rows }: Input): Check[] {
  return rows.outcomes.flatMap((outcome) => {
    const { agentId, messageId } = outcome
    const seq = rows.messages.find(({ id }) => id === messageId)?.seq
    const message = recording.messages.find((one) => one.seq === seq)
    const isKnown = recording.outcomes.some((one) => one.messageId === message?.id && one.agentId === agentId)
    if (message === undefined || isKnown) return []
    const divergence: Divergence = {
      kind: 'wake-up',
      where: `The outcome of message ${seq} for ${nameOf(recording, agentId)}`,
      recorded: '(no outcome)',
      replayed: outcomeText(outcome),
      cause: 'Routing decided differently.',
    }
    return [{ at: timeOf(message.createdAt), rank: 7, run: () => divergence }]
  })
}

const KIND_OF_ACTION: Partial<Record<Action['type'], DivergenceKind>> = {
  begin: 'wake-up',
  step: 'end',
  answer: 'end',
  post: 'message',
  say: 'message',
}

function ofStall(recording: Recording, { action, reason }: Stall): Divergence {
  const agentId = 'run' in action ? action.run.agentId : 'call' in action ? action.call.agentId : null
  return {
    kind: KIND_OF_ACTION[action.type] ?? 'call',
    where: agentId === null ? 'The space' : nameOf(recording, agentId),
    recorded: `The action ${action.type} happened.`,
    replayed: 'The action cannot happen.',
    cause: reason,
  }
}
