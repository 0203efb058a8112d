import { type Application, createApp } from '../app.ts'
import { readConfig } from '../config.ts'
import { readMovedRows } from '../operation/moving.ts'
import { runsOfSpace } from '../operation/recording.ts'
import type { ConductedPoint, Conductor } from '../platform/conductor.ts'
import { isOfEngine, perform } from './acting.ts'
import { answerCall, answerModel, completeAnswer } from './answers.ts'
import { modelNamesOf, settingsOf, writeCast } from './cast.ts'
import { callGate } from './gates.ts'
import type { IdMap } from './ids.ts'
import { inboxSeen } from './momentary.ts'
import type { Action } from './order.ts'
import { createRecordedModel } from './recorded-model.ts'
import { createRecordedHttp, createRecordedMcp, type StoredListing } from './recorded-tools.ts'
import { addRow, type Recording, type RoomRows, roomOf, type Tables } from './recording.ts'
import { type Stage, takeStage } from './stage.ts'
import { waitUntilQuiet } from './waiting.ts'
import {
  createWorld,
  identifyRun,
  learnCalls,
  learnMessages,
  type PlayOptions,
  prismaOf,
  recordedRunOf,
  type World,
} from './world.ts'

/** The action at which a replay could not follow its recording. */
export interface Stall {
  action: Action
  /** A sentence. */
  reason: string
}

export interface Played {
  rows: RoomRows
  ids: IdMap
  stall: Stall | null
  /** Answers and results that the recording lacks, as sentences. */
  missing: string[]
}

/**
 * Replays a recording on the real engine, in a separate embedded database: people, plans and services act in the recorded
 * order, and models and tools return their recorded answers.
 */
export async function play(recording: Recording, options: PlayOptions = {}): Promise<Played> {
  const stage = await takeStage()
  try {
    const world = await createWorld(recording, options, (created) => openApp(stage, created))
    const played = await playAndClose(world)
    await stage.leave()
    return played
  } catch (error) {
    await stage.close()
    throw error
  }
}

async function playAndClose(world: World): Promise<Played> {
  try {
    return await playIn(world)
  } finally {
    world.gates.openAll()
    await world.app.close(0)
  }
}

/** Opens an application whose models, tools and order of work are those of the recording. */
function openApp({ folder, storage }: Stage, world: World): Promise<Application> {
  const { recording, options } = world
  const models = [...modelNamesOf(recording, options)].map((name) => [
    name,
    createRecordedModel(name, {
      answer: (model, asked) => answerModel(world, model, asked),
      complete: () => completeAnswer(world),
    }),
  ])
  const answer = (callId: string) => answerCall(world, callId)
  const listings = recording.mcpServers.map(
    ({ name, url, listing }): StoredListing => ({ name, url, listing: (listing ?? []) as never }),
  )
  const config = readConfig(settingsOf(folder, recording))
  return createApp(
    { ...config, prices: new Map(Object.entries(recording.heading.prices)) },
    {
      clock: { now: () => world.now },
      storage,
      models: { providers: [], extra: Object.fromEntries(models) },
      tools: { http: createRecordedHttp(answer), mcp: createRecordedMcp(answer, () => listings) },
      conductor: conductorOf(world),
    },
  )
}

/** Holds the engine at its points until the recorded order allows it to continue; the runs of a candidate are only identified. */
function conductorOf(world: World): Conductor {
  const { gates, isFree, started, thinking } = world
  return {
    mayThink: (agentId) => isFree || thinking.has(agentId),
    inboxAt(runId, step) {
      const run = recordedRunOf(world, runId)
      return isFree || run === undefined ? null : inboxSeen(world.recording, run, step)
    },
    async reached(point) {
      const { runId, type } = point
      if (type === 'begin') {
        // A later attempt continues at once.
        if (started.has(runId)) return
        started.add(runId)
        await learnMessages(world)
        await identifyRun(world, runId)
        thinking.delete(point.agentId)
      }
      if (isFree) return
      if (type === 'call') return reachCall(world, point)
      await gates.reach(type === 'plan' ? `step ${runId} ${point.step}` : `${type} ${runId}`, runId)
    },
  }
}

/** Holds a call until it was executed in the recording, if that has an action for it. */
async function reachCall(world: World, { runId, callId }: Extract<ConductedPoint, { type: 'call' }>): Promise<void> {
  const { callGates, gates, ids, started } = world
  // A later attempt continues at once.
  if (started.has(callId)) return
  started.add(callId)
  const call = await prismaOf(world).toolCall.findUniqueOrThrow({ where: { id: callId } })
  if (callGates.has(callGate(ids.recordedOf(runId), call))) await gates.reach(callGate(runId, call), runId)
}

async function playIn(world: World): Promise<Played> {
  const { app, gates, ids, isFree, missing, recording } = world
  await writeCast(world)
  await app.startWorker()
  const stall = await follow(world)
  if (stall === null) {
    // A run that had not ended when it was recorded goes no further.
    for (const { id, finishedAt } of recording.runs) if (finishedAt !== null) gates.openRun(ids.replayedOf(id) ?? '')
    await waitUntilQuiet(world)
  }
  await learnMessages(world)
  for (const { id } of recording.runs) await learnCalls(world, ids.replayedOf(id) ?? '')
  const rows = await readRoom(app, recording.heading.spaceId)
  return { rows, ids, stall: isFree ? null : stall, missing: [...missing] }
}

/** Repeats all actions in order. Returns the action at which that is impossible; null if it succeeds. */
async function follow(world: World): Promise<Stall | null> {
  for (const { at, action } of world.schedule) {
    if (world.isFree && isOfEngine(action)) continue
    world.now = Math.max(world.now, at)
    const reason = await perform(world, action)
    if (reason !== null && !world.isFree) return { action, reason }
    if (reason !== null) world.missing.add(reason)
    await waitUntilQuiet(world)
  }
  return null
}

/** Reads the rows of the replay as a recording of it would contain them. */
async function readRoom({ platform }: Application, spaceId: string): Promise<RoomRows> {
  const tables: Tables = new Map()
  for await (const { table, row } of readMovedRows(platform.db, spaceId, runsOfSpace(spaceId))) {
    // Rows are converted through JSON, as in a recording.
    const value = JSON.parse(JSON.stringify(row)) as Record<string, unknown>
    addRow(tables, table, value)
  }
  return roomOf(tables)
}
