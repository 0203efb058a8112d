import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createHistory, type HistoryScope } from '../../src/spaces/history.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const THREADS = 20_000
const REPLIES = 60_000
/** The first message of the long thread. */
const LONG = `msg_c${'1'.padStart(31, '0')}`

/**
 * The rows of a space in which a human takes part in many threads, each with one new reply. Another person mentions the human
 * once at the beginning of a long thread, and then continues alone. The first message of that thread is longer than a prompt
 * shows.
 */
const FILL = `
  INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt", "createdAt")
    SELECT 'msg_c' || lpad(n::text, 31, '0'), $1, n, $2, 'COMPLETE', jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat('x', 8500))), 'r', 0, now(), now() FROM generate_series(1, 1) n;
  INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt", "createdAt", "threadRootId", "replyToId")
    SELECT 'msg_a' || lpad(n::text, 31, '0'), $1, 1 + n, $3, 'COMPLETE', '[{"type":"text","text":"x"}]', 'r', 0, now(), now(),
      'msg_b' || lpad(n::text, 31, '0'), 'msg_b' || lpad(n::text, 31, '0') FROM generate_series(1, ${THREADS}) n;
  INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt", "createdAt", "threadRootId", "replyToId", "mentionedIds")
    SELECT 'msg_d' || lpad(n::text, 31, '0'), $1, ${THREADS} + 1 + n, $3, 'COMPLETE', '[{"type":"text","text":"x"}]', 'r', 0, now(), now(),
      '${LONG}', '${LONG}', CASE WHEN n = 1 THEN ARRAY[$2] ELSE '{}' END FROM generate_series(1, ${REPLIES}) n;
  INSERT INTO "ThreadReader" ("threadRootId", "humanId", "spaceId", "takesPart")
    SELECT 'msg_b' || lpad(n::text, 31, '0'), $2, $1, true FROM generate_series(1, ${THREADS}) n;
  INSERT INTO "ThreadReader" ("threadRootId", "humanId", "spaceId", "takesPart") VALUES ('${LONG}', $2, $1, false);
  UPDATE "Space" SET "lastSeq" = ${THREADS + REPLIES + 1}, "firstSeq" = 1 WHERE id = $1;
`

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  Plans?: PlanNode[]
}

/** Returns the number of rows that a plan has read from tables with threads. */
function rowsRead(node: PlanNode): number {
  const isRead = ['Message', 'ThreadReader'].includes(node['Relation Name'] ?? '')
  const own = isRead ? (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'] : 0
  return (node.Plans ?? []).reduce((sum, inner) => sum + rowsRead(inner), own)
}

describe.skipIf(!hasPostgres)(`a human in ${THREADS} threads, and a thread of ${REPLIES} replies`, () => {
  let parley: TestServer
  let direct: pg.Client
  let human: Awaited<ReturnType<TestServer['human']>>
  let spaceId: string
  const { query } = pg.Client.prototype

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'postgres' })
    human = await parley.human('Ann')
    const other = await parley.human('Bob')
    const memberIds = [human.id, other.id]
    const { spaces } = parley.app.domain
    spaceId = (await spaces.create(parley.admin, { name: 'Room', routing: 'BROADCAST', memberIds })).id
    direct = new pg.Client({ connectionString: parley.stores.settings.DATABASE_URL ?? '' })
    await direct.connect()
    await direct.query('SET session_replication_role = replica')
    const values = { $1: spaceId, $2: human.id, $3: other.id }
    await direct.query(FILL.replace(/\$[123]/g, (name) => `'${values[name as keyof typeof values]}'`))
    await direct.query('ANALYZE')
  }, 120_000)
  afterAll(async () => {
    pg.Client.prototype.query = query
    await direct?.end()
    await parley?.close()
  })

  /** Returns how many rows the statements about threads read while an action runs. */
  async function readBy(action: () => Promise<unknown>): Promise<number> {
    const statements: { text: string; values: unknown[] }[] = []
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
      const [given] = args as [string | { text?: string; values?: unknown[] }]
      const text = typeof given === 'string' ? given : (given.text ?? '')
      const values = typeof given === 'string' ? ((args[1] as unknown[]) ?? []) : (given.values ?? [])
      if (this !== direct && /^\s*(SELECT|WITH)\b.*"(ThreadReader|threadRootId)"/s.test(text))
        statements.push({ text, values })
      return query.apply(this, args as never)
    } as never
    await action().finally(() => {
      pg.Client.prototype.query = query
    })
    expect(statements.length).toBeGreaterThan(0)
    let sum = 0
    for (const { text, values } of statements) {
      const plan = await direct.query({ text: `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values: values as never })
      sum += rowsRead(plan.rows[0]['QUERY PLAN'][0].Plan)
    }
    return sum
  }

  test('unread replies are counted from a bounded number of rows', async () => {
    const { reading } = parley.app.domain
    const inSpace = async () =>
      (await reading.unreadOfMany([{ humanId: human.id, spaceId }])).get(human.id)?.get(spaceId)
    // The thread that began last is the long one, whose newest replies do not mention the human. The newest 999 others follow.
    expect(await inSpace()).toEqual({ messages: 999, mentions: 0 })
    expect(await readBy(inSpace)).toBeLessThanOrEqual(3010)
    expect(await readBy(() => reading.unreadTotal(human.id))).toBeLessThanOrEqual(3010)
    const asked = [{ humanId: human.id, threadRootId: LONG }]
    expect((await reading.unreadInThreads(asked)).get(human.id)?.get(LONG)).toBe(1000)
    expect(await readBy(() => reading.unreadInThreads(asked))).toBeLessThanOrEqual(1010)
  })

  test('the replies of a thread are counted up to 10,000, and the last one is found by an index', async () => {
    const { reading } = parley.app.domain
    const read = () => reading.threadsMany([LONG, `msg_b${'1'.padStart(31, '0')}`, 'msg_none'])
    const threads = await read()
    expect([...threads].map(([id, { replyCount }]) => [id, replyCount])).toEqual([
      [LONG, 10_000],
      [`msg_b${'1'.padStart(31, '0')}`, 1],
    ])
    expect(await readBy(read)).toBeLessThanOrEqual(10_010)
  })

  test('a prompt does not count the distance of a long text beyond 10,000 messages', async () => {
    const history = createHistory(parley.app.platform)
    const scope: HistoryScope = { type: 'root', threadRootId: LONG }
    const readOn = (back: number) => `read on at ${back}`
    const read = () => history.read({ spaceId, readerId: human.id, scope, limit: 2, characters: 60_000, readOn })
    const [root] = await read()
    expect(root?.text).toMatch(/… \(500 more characters\)$/)
    expect(await readBy(read)).toBeLessThanOrEqual(10_020)
    const near = await history.read({
      spaceId,
      readerId: human.id,
      scope,
      upToSeq: 500,
      limit: 2,
      characters: 60_000,
      readOn,
    })
    expect(near[0]?.text).toMatch(/read on at 499$/)
  })

  test('messages sent during a wait are searched among the newest 10,000', async () => {
    const history = createHistory(parley.app.platform)
    const since = { at: new Date(Date.now() + 60_000), butOfRun: 'run_0' }
    const upToSeq = THREADS + REPLIES + 1
    for (const scope of [
      { type: 'among', threadRootIds: [LONG], withOutside: false },
      { type: 'among', threadRootIds: [LONG], withOutside: true },
    ] as const) {
      const read = () =>
        history.read({ spaceId, readerId: human.id, scope, since, upToSeq, limit: 50, characters: 60_000 })
      expect(await read()).toEqual([])
      expect(await readBy(read)).toBeLessThanOrEqual(20_010)
    }
  })
})
