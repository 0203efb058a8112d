import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type BookedService, openService } from '../support/decisions.ts'
import { runsOf } from '../support/effort.ts'
import { CANARIES, playRoom, recordingOf, roomKind } from '../support/recorded-rooms.ts'

/** A folder for recordings of a new release: `RECORD_TO=test/recordings/0.3.0 npx vitest run test/replay/rooms-property.test.ts`. */
const RECORD_TO = process.env['RECORD_TO']

/** Other rooms: `FIRST_ROOM=12 ROOMS=24`. */
const { FIRST_ROOM = '0', ROOMS = String(runsOf({ usual: 6, nightly: 200 })) } = process.env

const KINDS = Array.from({ length: Number(ROOMS) }, (_, n) => roomKind(Number(FIRST_ROOM) + n))
  // A confidential space changes what recordings of other spaces contain.
  .toSorted((a, b) => Number(a.confidential) - Number(b.confidential))

describe('a recorded room replays to an equal log', () => {
  let parley: TestApplication
  let service: BookedService
  beforeAll(async () => {
    parley = await startApplication({ isFresh: true })
    service = await openService()
  })
  afterAll(async () => {
    await parley.close()
    await service.close()
  })

  test.each(KINDS.map((kind, n) => [`${n} ${kind.name}`, kind] as const))('%s', async (_, kind) => {
    const { spaceId } = await playRoom(parley, kind, service.url)
    const { text, recording } = await recordingOf(parley, spaceId)
    if (RECORD_TO !== undefined)
      writeFileSync(`${RECORD_TO}/${kind.name.replaceAll(' ', '-').toLowerCase()}.jsonl`, text)
    for (const canary of Object.values(CANARIES)) expect(text).not.toContain(canary)
    const [called, asked] = [service.calls.length, parley.models.requests.length]
    const replayed = await replay(recording)
    expect(replayed.isEqual, describeReplay(kind.name, replayed)).toBe(true)
    const expected = recording.heading.hasOtherConfidential
      ? [expect.stringContaining('Instructions were not compared')]
      : []
    expect(replayed.notes).toEqual(expected)
    expect([service.calls.length, parley.models.requests.length]).toEqual([called, asked])
    expect((await recordingOf(parley, spaceId)).text.split('\n').slice(1, -2)).toEqual(text.split('\n').slice(1, -2))
  })
})
