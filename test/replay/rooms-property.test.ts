import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { backtest } from '../../src/replay/backtest.ts'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type BookedService, openService } from '../support/decisions.ts'
import { runsOf } from '../support/effort.ts'
import { ASPECT_NAMES, aspectsOf, CANARIES, playRoom, recordingOf, roomKind } from '../support/recorded-rooms.ts'

/**
 * The folder in which to store recordings of a new release: `RECORD_TO=test/recordings/0.3.0 npx vitest run
 * test/replay/rooms-property.test.ts`.
 */
const RECORD_TO = process.env['RECORD_TO']

/** The rooms of the long form: each combination of routing, memory mode and toolset with each event; see `roomKind`. */
const FULL = 216

/** For other rooms, set for example `FIRST_ROOM=12 ROOMS=24`. */
const { FIRST_ROOM = '0', ROOMS = String(runsOf({ usual: 6, nightly: FULL })) } = process.env

const KINDS = Array.from({ length: Number(ROOMS) }, (_, n) => roomKind(Number(FIRST_ROOM) + n))
  // A confidential space changes what recordings of other spaces contain.
  .toSorted((a, b) => Number(a.confidential) - Number(b.confidential))

/** The aspects that the rooms of the short form contain. */
const OF_SHORT_FORM = [
  'a thread',
  'a deletion by a person',
  'a file of a person',
  'a file of an agent',
  'a tool failure',
]

describe('a recorded room replays to an equal log', () => {
  let parley: TestApplication
  let service: BookedService
  const found = new Set<string>()
  beforeAll(async () => {
    parley = await startApplication({ isFresh: true, worker: false })
    service = await openService()
  })
  afterAll(async () => {
    await parley.close()
    await service.close()
  })

  test.each(KINDS.map((kind, n) => [`${n} ${kind.name}`, kind] as const))('%s', async (_, kind) => {
    await parley.app.startWorker()
    const { spaceId } = await playRoom(parley, kind, service.url)
    // Otherwise an agent of an earlier room could retry an event, and call its model, during the replay.
    await parley.app.stopWorker(500)
    const { text, recording } = await recordingOf(parley, spaceId)
    if (RECORD_TO !== undefined)
      writeFileSync(`${RECORD_TO}/${kind.name.replaceAll(' ', '-').toLowerCase()}.jsonl`, text)
    for (const canary of Object.values(CANARIES)) expect(text).not.toContain(canary)
    for (const aspect of aspectsOf(recording)) found.add(aspect)
    const [called, asked] = [service.calls.length, parley.models.requests.length]
    const replayed = await replay(recording)
    expect(replayed.isEqual, describeReplay(kind.name, replayed)).toBe(true)
    const lanes = await backtest(recording, { changes: new Map(), checks: [], models: null, judge: null })
    expect(lanes.baseline, 'the second lane of a backtest').toBe(null)
    const expected = recording.heading.hasOtherConfidential
      ? [expect.stringContaining('Instructions were not compared')]
      : []
    expect(replayed.notes).toEqual(expected)
    expect([service.calls.length, parley.models.requests.length]).toEqual([called, asked])
    expect((await recordingOf(parley, spaceId)).text.split('\n').slice(1, -2)).toEqual(text.split('\n').slice(1, -2))
  })

  test('these rooms contain everything that their form must contain', () => {
    const isChosen = process.env['FIRST_ROOM'] !== undefined || process.env['ROOMS'] !== undefined
    const expected = KINDS.length === FULL ? ASPECT_NAMES : isChosen ? [] : OF_SHORT_FORM
    expect(expected.filter((aspect) => !found.has(aspect))).toEqual([])
  })
})
