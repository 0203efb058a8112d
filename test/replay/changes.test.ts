import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { readRecording } from '../../src/replay/recording.ts'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { edited } from '../support/recorded-rooms.ts'

const FOLDER = path.join(import.meta.dirname, '../recordings/0.2.0')

// biome-ignore lint/suspicious/noExplicitAny: tests change any column
type Line = { table: string; row: Record<string, any> }

/**
 * Replays a recording with further rows. `t` returns a time after its last run; `before` is the table before which the rows are
 * added.
 */
async function replayWith(
  name: string,
  before: string,
  more: (lines: Line[], t: (ms: number) => string) => Line[],
): Promise<string[]> {
  const text = readFileSync(path.join(FOLDER, `${name}.jsonl`), 'utf8')
  const all = text.trimEnd().split('\n')
  const lines = all.slice(1, -1).map((line) => JSON.parse(line) as Line)
  const last = Math.max(...lines.map(({ table, row }) => (table === 'Run' ? Date.parse(row['finishedAt']) : 0)))
  const added = more(lines, (ms) => new Date(last + ms).toISOString())
  const at = lines.findIndex(({ table }) => table === before)
  const whole = [...lines.slice(0, at), ...added, ...lines.slice(at)].map((line) => JSON.stringify(line))
  const recording = readRecording(
    name,
    edited([all[0], ...whole, all.at(-1), ''].join('\n'), () => {}),
  )
  const replayed = await replay(recording)
  expect(replayed.isEqual, describeReplay(name, replayed)).toBe(true)
  // The recording comes from an earlier release, whose prompts were worded differently.
  return replayed.notes.filter((note) => !note.includes("the server's own wording"))
}

test('a replay repeats the settings of a space, a pause and a memory, and lists what the audit log does not contain', async () => {
  const notes = await replayWith('broadcast-stateless-active_space-talk', 'RunVersion', (lines, t) => {
    const space = lines.find(({ table }) => table === 'Space')?.row ?? {}
    const [ada, bob] = lines.filter(({ table }) => table === 'Agent').map(({ row }) => String(row['id']))
    const entry = (n: number, action: string, targetId: unknown, detail: object, at: string) => ({
      table: 'AuditEntry',
      row: { id: `aud_${String(n).padStart(32, '0')}`, actorId: null, action, targetId, detail, refused: false, at },
    })
    space['routing'] = 'MENTION_CHAIN'
    const changed = { routing: 'MENTION_CHAIN', fields: ['id', 'routing', 'name'] }
    const memory = { id: `mem_${'f'.repeat(32)}`, agentId: ada, key: 'told', value: 'x', places: [], label: [] }
    return [
      entry(1, 'createSpace', space['id'], { routing: 'BROADCAST' }, space['createdAt']),
      entry(2, 'updateSpace', space['id'], changed, t(1000)),
      entry(3, 'updateAgent', bob, { paused: true }, t(2000)),
      entry(4, 'setMemories', ada, {}, t(3000)),
      { table: 'Memory', row: { ...memory, updatedAt: t(3000) } },
    ]
  })
  expect(notes).toEqual([expect.stringContaining('somebody changed the name of the space')])
})

/** Returns the rows of a standing grant for the tool `refund`, proposed at 500 and decided at 1000 ms after the last run. */
function grantRows(lines: Line[], t: (ms: number) => string, ended: object): Line[] {
  const human = lines.find(({ table, row }) => table === 'Entity' && row['kind'] === 'HUMAN')?.row['id']
  const call = lines.find(({ row }) => row?.['toolName'] === 'refund' && row['runId'] !== undefined)?.row ?? {}
  const id = `grt_${'a'.repeat(32)}`
  const grant = {
    id,
    agentId: call['agentId'],
    toolName: 'refund',
    toolDigest: 'x',
    quorum: 1,
    approverIds: [human],
    spaceId: lines.find(({ table }) => table === 'Space')?.row['id'],
    inputSchema: null,
    maxCalls: 5,
    usedCalls: 0,
    amountProperty: null,
    maxAmount: null,
    usedAmount: 0,
    proposedById: human,
    places: [],
    label: [],
    createdAt: t(500),
    expiresAt: t(36_000_000),
    activeSince: t(1000),
    deniedAt: null,
    toolChangedAt: null,
    revokedAt: null,
    revokedById: null,
    ...ended,
  }
  const decision = { grantId: id, humanId: human, approve: true, reason: null, at: t(1000) }
  return [
    { table: 'StandingGrant', row: grant },
    { table: 'GrantDecision', row: decision },
  ]
}

test('a replay repeats the decision on a standing grant, and its end', async () => {
  const notes = await replayWith('mention_chain-stateless-active_space-approval', 'Membership', (lines, t) => {
    const human = lines.find(({ table, row }) => table === 'Entity' && row['kind'] === 'HUMAN')?.row['id']
    return grantRows(lines, t, { revokedAt: t(2000), revokedById: human })
  })
  expect(notes).toEqual([])
})

test('a replay repeats a standing grant between two changes of its tool', async () => {
  const notes = await replayWith('mention_chain-stateless-active_space-approval', 'Membership', (lines, t) => {
    const rows = grantRows(lines, t, { toolChangedAt: t(2000) })
    const versions = lines.filter(
      ({ table, row }) => table === 'AgentVersion' && row['agentId'] === rows[0]?.row['agentId'],
    )
    const last = versions.at(-1)?.row ?? {}
    const version = (n: number, at: string): Line => ({
      table: 'AgentVersion',
      row: {
        ...last,
        id: `agv_${String(n).repeat(32)}`,
        number: last['number'] + n,
        definition: {
          ...last['definition'],
          tools: last['definition'].tools.map((tool: object) => ({ ...tool, description: `Version ${n}` })),
        },
        createdAt: at,
      },
    })
    return [...rows, version(1, t(200)), version(2, t(2000))]
  })
  expect(notes).toEqual([])
})
