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
  /** A sentence that says why. */
  reason: string
}

export interface Played {
  rows: RoomRows
  ids: IdMap
  stall: Stall | null
  /** Sentences about answers and results that are missing from the recording. */
  missing: string[]
}

/**
 * Replays a recording on the real engine, with a separate embedded database. People, plans and services act in the
 * recorded order, and models and tools return their recorded answers.
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

/** Opens an application that takes its models, its tools and the order of its work from the recording. */
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

/**
 * Makes the engine wait at each point until the recorded order allows it to continue. The conductor of a candidate only
 * matches runs with recorded runs.
 */
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
        // Only the first attempt of a run waits.
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

/** Makes a call wait until the recorded order allows its execution, if the recording has an action for the call. */
async function reachCall(world: World, { runId, callId }: Extract<ConductedPoint, { type: 'call' }>): Promise<void> {
  const { callGates, gates, ids, started } = world
  // Only the first attempt of a call waits.
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
    // A run that had not ended when it was recorded must not continue further.
    for (const { id, finishedAt } of recording.runs) if (finishedAt !== null) gates.openRun(ids.replayedOf(id) ?? '')
    await waitUntilQuiet(world)
  }
  await learnMessages(world)
  for (const { id } of recording.runs) await learnCalls(world, ids.replayedOf(id) ?? '')
  const rows = await readRoom(app, recording.heading.spaceId)
  return { rows, ids, stall: isFree ? null : stall, missing: [...missing] }
}

/** Repeats all actions in order. Returns the action that cannot be repeated; null if all succeed. */
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

/** Reads the rows of the replay in the form in which a recording would contain them. */
async function readRoom({ platform }: Application, spaceId: string): Promise<RoomRows> {
  const tables: Tables = new Map()
  for await (const { table, row } of readMovedRows(platform.db, spaceId, runsOfSpace(spaceId))) {
    // Rows are converted through JSON, as in a recording.
    const value = JSON.parse(JSON.stringify(row)) as Record<string, unknown>
    addRow(tables, table, value)
  }
  return roomOf(tables)
}
