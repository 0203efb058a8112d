import type { Application } from '../app.ts'
import type { Message, Run, Step } from '../generated/prisma/client.ts'
import { isObject, type Json, type JsonObject } from '../lib/json.ts'
import type { CallOptions } from '../models/language-model.ts'
import { callGate, createGates, type Gates } from './gates.ts'
import { createIdMap, type IdMap } from './ids.ts'
import type { ScheduledAction } from './order.ts'
import type { ModelAnswer } from './recorded-model.ts'
import type { Recorded, Recording, RoomRows } from './recording.ts'
import { beginOf, scheduleOf } from './schedule.ts'

export interface PlayOptions {
  /** Changes that are applied to agents after they were written: fields of UpdateAgentInput, by the agent's id. */
  changes?: ReadonlyMap<string, JsonObject>
  /** Returns an answer that replaces the recorded one; null for the recorded answer. */
  model?(asked: Asked): Promise<ModelAnswer | null>
  /** Results for calls that the recording lacks. */
  results?: readonly GivenResult[]
  /**
   * Whether this is a candidate: it follows only the recorded actions of people, plans and services, and does not
   * constrain the agents.
   */
  isFree?: boolean
}

/** A result for a call that is not in the recording. The call's input must include the fields of `input`. */
export interface GivenResult {
  agent: string
  tool: string
  input?: JsonObject
  output: Json
}

/** A generation that the engine requests. */
export interface Asked {
  model: string
  agentId: string
  options: CallOptions
  /** The recorded step at the same position; undefined if there is none. */
  step: Recorded<Step> | undefined
}

/** A replay in progress. */
export interface World {
  readonly recording: Recording
  readonly options: PlayOptions
  readonly isFree: boolean
  readonly app: Application
  readonly ids: IdMap
  readonly gates: Gates
  readonly schedule: readonly ScheduledAction[]
  /** The gates of calls for which the schedule has an action. Their names contain the ids of recorded runs. */
  readonly callGates: ReadonlySet<string>
  /** The virtual clock, in milliseconds since 1970. */
  now: number
  /** The persistent agents whose next cycle can begin. */
  readonly thinking: Set<string>
  /** The runs and calls of the replay that have reached their first gate. */
  readonly started: Set<string>
  /** Sentences about answers and results that are missing from the recording. */
  readonly missing: Set<string>
  /** The recorded calls whose results have been returned, and the models of recorded steps that have failed. */
  readonly used: Set<string>
}

/** @param openApp opens the application of the replay, whose parts use the world */
export async function createWorld(
  recording: Recording,
  options: PlayOptions,
  openApp: (world: World) => Promise<Application>,
): Promise<World> {
  let app: Application | null = null
  const schedule = scheduleOf(recording)
  const world: World = {
    recording,
    options,
    isFree: options.isFree === true,
    get app() {
      if (app === null) throw new Error('The application of the replay has not started yet.')
      return app
    },
    ids: createIdMap(),
    gates: createGates(),
    schedule,
    callGates: new Set(
      schedule.flatMap(({ action }) => (action.type === 'call' ? [callGate(action.call.runId, action.call)] : [])),
    ),
    now: beginOf(recording),
    thinking: new Set(),
    started: new Set(),
    missing: new Set(),
    used: new Set(),
  }
  app = await openApp(world)
  return world
}

export const prismaOf = ({ app }: World) => app.platform.db.prisma

/** Returns the name of a person or agent in a recording. */
export function nameOf({ entities }: Pick<RoomRows, 'entities'>, id: string): string {
  return entities.find((one) => one.id === id)?.name ?? id
}

/** Whether a call's input includes all fields, with equal values. */
export const includesFields = (input: Json, fields: JsonObject): boolean =>
  Object.entries(fields).every(([key, value]) => createIdMap().areSame(value, isObject(input) ? input[key] : undefined))

/** Returns the recorded run that a run of the replay repeats. */
export function recordedRunOf({ ids, recording }: World, runId: string): Recorded<Run> | undefined {
  const recorded = ids.recordedOf(runId)
  return recording.runs.find(({ id }) => id === recorded)
}

/**
 * Returns a key that identifies the same message in the recording and the replay. The key is the message's number. In a
 * candidate, concurrent agents can post in another order, so the key is the sender and the message's position among the
 * sender's messages.
 */
export function placesOf(
  messages: readonly Pick<Recorded<Message>, 'id' | 'seq' | 'senderId'>[],
  isFree: boolean,
): Map<string, string> {
  const counts = new Map<string, number>()
  return new Map(
    messages.map(({ id, seq, senderId }) => {
      const count = (counts.get(senderId) ?? 0) + 1
      counts.set(senderId, count)
      return [id, isFree ? `${senderId} ${count}` : String(seq)]
    }),
  )
}

/**
 * Finds the recorded run that a new run of the replay repeats. This is the next recorded run with the same agent and
 * trigger.
 */
export async function identifyRun(world: World, runId: string): Promise<void> {
  const { ids, isFree, recording } = world
  if (ids.recordedOf(runId) !== undefined) return
  const prisma = prismaOf(world)
  const run = await prisma.run.findUniqueOrThrow({ where: { id: runId } })
  const trigger = await prisma.message.findUnique({
    where: { id: run.triggerMessageId ?? '' },
    select: { seq: true, senderId: true, spaceId: true },
  })
  const placeOf = placesOf(recording.messages, isFree)
  const earlier =
    trigger === null || !isFree
      ? []
      : await prisma.message.findMany({
          where: { spaceId: trigger.spaceId, senderId: trigger.senderId, seq: { lte: trigger.seq } },
          select: { id: true },
        })
  const place = trigger === null ? undefined : isFree ? `${trigger.senderId} ${earlier.length}` : String(trigger.seq)
  const hasSameTrigger = (one: Recorded<Run>) =>
    one.triggerType === run.triggerType &&
    (one.retryOfId === null) === (run.retryOfId === null) &&
    // The cycles of an agent are executed one after another, so their order identifies them.
    (run.triggerType === 'INBOX' ||
      (placeOf.get(one.triggerMessageId ?? '') === place && one.triggerName === run.triggerName))
  const found = recording.runs.find(
    (one) => ids.replayedOf(one.id) === undefined && one.agentId === run.agentId && hasSameTrigger(one),
  )
  if (found !== undefined) ids.link(found.id, runId)
}

/** Links the messages of the replay to the recorded ones with the same number. */
export async function learnMessages(world: World): Promise<void> {
  const { ids, isFree, recording } = world
  // A candidate can post other messages.
  if (isFree) return
  const { spaceId } = recording.heading
  const rows = await prismaOf(world).message.findMany({ where: { spaceId }, select: { id: true, seq: true } })
  for (const { id, seq } of rows) {
    const recorded = recording.messages[seq - 1]
    if (recorded !== undefined) ids.link(recorded.id, id)
  }
}

/** Links the ids in the results of a run's calls. */
export async function learnCalls(world: World, runId: string): Promise<void> {
  const { ids, recording } = world
  const recorded = ids.recordedOf(runId)
  if (recorded === undefined) return
  const replayed = await prismaOf(world).toolCall.findMany({ where: { runId } })
  for (const call of recording.calls) {
    if (call.runId !== recorded) continue
    const same = replayed.find((one) => one.stepIndex === call.stepIndex && one.modelCallId === call.modelCallId)
    if (same === undefined) continue
    ids.link(call.id, same.id)
    ids.learn(call.output, same.output)
  }
}
