import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type BookedService, openService } from '../support/decisions.ts'
import { runsOf } from '../support/effort.ts'
import { playRoom, type RoomKind, recordingOf } from '../support/recorded-rooms.ts'

const TIMES = runsOf({ usual: 3, nightly: 50 })
const MINDS = ['STATELESS', 'PERSISTENT'] as const
const TOOLSETS = ['ACTIVE_SPACE', 'SPACE_TOOLS'] as const
const KINDS = MINDS.flatMap((mind) =>
  TOOLSETS.map(
    (toolset): RoomKind => ({
      name: `${mind} ${toolset}`,
      routing: 'BROADCAST',
      mind,
      toolset,
      happens: 'crowd',
      confidential: false,
    }),
  ),
)

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

test.each(KINDS.map((kind) => [kind.name, kind] as const))(
  `three %s agents that read and answer at the same time are replayed equally, ${TIMES} times`,
  { timeout: 600_000 },
  async (_, kind) => {
    const { spaceId } = await playRoom(parley, kind, service.url)
    const { recording } = await recordingOf(parley, spaceId)
    expect(new Set(recording.messages.map(({ senderId }) => senderId)).size).toBe(4)
    for (let n = 0; n < TIMES; n++) {
      const replayed = await replay(recording)
      expect(replayed.isEqual, describeReplay(`replay ${n}`, replayed)).toBe(true)
    }
  },
)
