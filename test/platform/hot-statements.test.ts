import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { createRetention } from '../../src/operation/retention.ts'
import { forAgent, steps, when } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const ROWS = 100_000
/**
 * Creating this many rows would take long, so fake statistics make the planner believe that they exist. The number of pages is
 * the real one, so a full scan looks cheaper than it would be.
 */
const ROWS_OF_YEARS = 10_000_000
const LARGE = ['Message', 'Outcome', 'Run', 'RunSpace', 'Step', 'ToolCall', 'InboxEvent', 'Cycle', 'Membership']

/** The rows of a busy deployment: 1000 agents and spaces, complete messages, ended runs, and settled calls. */
const FILL = `
  INSERT INTO "Entity" (id, kind, name) SELECT 'agt_f' || n, 'AGENT', 'Filler' FROM generate_series(1, 1000) n;
  INSERT INTO "Space" (id, name, routing, "lastSeq") SELECT 'spc_f' || n, 'Filler', 'BROADCAST', 300 FROM generate_series(1, 1000) n;
  INSERT INTO "Membership" ("spaceId", "entityId") SELECT 'spc_f' || s, 'agt_f' || (s + a) % 1000 FROM generate_series(1, 1000) s, generate_series(1, 20) a;
  INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "runId", "runPostKey", "rootId", depth, "routedAt")
    SELECT 'msg_f' || n, 'spc_f' || n % 1000, n / 1000, 'agt_f' || n % 1000, 'COMPLETE', '[{"type":"text","text":"x"}]', 'run_f' || n, 'k', 'r', 0, now() FROM generate_series(1, ${ROWS}) n;
  INSERT INTO "Outcome" ("messageId", "agentId", kind) SELECT 'msg_f' || n, 'agt_f' || n % 1000, 'RUN' FROM generate_series(1, ${ROWS}) n;
  INSERT INTO "Run" (id, "agentId", status, "triggerType", "triggerSpaceId", "triggerMessageId", "triggerSummary", depth, "rootId", "parentRunId", "startedAt", "finishedAt", "claimableAt")
    SELECT 'run_f' || n, 'agt_f' || n % 1000, 'COMPLETED', 'SPACE_MESSAGE', 'spc_f' || n % 1000, 'msg_f' || n, 'x', 0, 'root' || n, 'run_f' || n / 2, now() - interval '1 day', now() - interval '1 day', NULL FROM generate_series(1, ${ROWS}) n;
  INSERT INTO "RunSpace" SELECT 'run_f' || n, 'spc_f' || n % 1000 FROM generate_series(1, ${ROWS}) n;
  INSERT INTO "Step" (id, "runId", index, model, "messagesKept", "messagesAdded", assistant, "startedAt")
    SELECT 'stp_f' || n, 'run_f' || n, 0, 'm', 0, '[]', '{"role":"assistant","content":[]}', now() FROM generate_series(1, ${ROWS}) n;
  INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", status, "messageId", "spaceId", "settledAt")
    SELECT 'tcl_f' || n, 'run_f' || n, 'agt_f' || n % 1000, 0, 'c', 't', 'DONE', 'msg_f' || n, 'spc_f' || n % 1000, now() FROM generate_series(1, ${ROWS}) n;
  INSERT INTO "InboxEvent" (id, "agentId", type, payload, "dedupKey", "messageId", "rootId", depth, "runId", "doneAt")
    SELECT 'inb_f' || n, 'agt_f' || n % 1000, 'SPACE_MESSAGE', '{}', 'msg_f' || n, 'msg_f' || n, 'r', 0, 'run_f' || n, now() FROM generate_series(1, ${ROWS}) n;
  INSERT INTO "Cycle" ("agentId", index, "runId", messages, summary, "tokenEstimate")
    SELECT 'agt_f' || n % 1000, n / 1000, 'run_f' || n, '[]', 'x', 10 FROM generate_series(1, ${ROWS}) n;
`

const DAY_MS = 86_400_000
const SWEEP = /"Message".*'STREAMING', 'REQUIRES_ACTION'/s

const SPACES = `{ viewer { unreadCount pendingToolCalls { id } }
  spaces(first: 20) { edges { node { id unreadCount members { id name } lastMessage { id } firstUnreadMessage { id }
    messages(last: 50) { edges { node { id text outcomes { kind run { id } } run { id status toolCalls { id } } parts { id } } } } } } } }`
const AGENT = `query ($id: ID!) { agent(id: $id) { active activeRuns { id } runs(first: 5) { edges { node { id status toolCalls { id } pendingToolCalls { id }
    internals { steps(first: 3) { edges { node { id } } } } } } }
  internals { inbox(first: 5) { edges { node { id } } } memories { key } goals { id } plans { id } consciousness { cycleCount } } } }`

interface Statement {
  text: string
  values: unknown[]
}

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  'Parent Relationship'?: string
  Plans?: PlanNode[]
}

/** Returns the plan nodes that scan a whole large table. */
function wholeReads(node: PlanNode, partial: Set<string>, limited = false): string[] {
  const { 'Node Type': type, 'Relation Name': table = '', 'Index Name': index = '' } = node
  const isWhole = type === 'Seq Scan' || (type.startsWith('Index') && !limited && node['Index Cond'] === undefined)
  const isOfSome = partial.has(index)
  const own = LARGE.includes(table) && isWhole && !isOfSome ? [`${type} of ${table} ${index}`] : []
  return [...own, ...(node.Plans ?? []).flatMap((inner) => wholeReads(inner, partial, limited || type === 'Limit'))]
}

describe.skipIf(!hasPostgres)(
  `the statements of runs and readers on a database of ${ROWS} messages, runs and calls`,
  () => {
    let parley: TestServer
    let direct: pg.Client
    const statements = new Map<string, Statement>()
    const { query } = pg.Client.prototype

    beforeAll(async () => {
      parley = await startTestServer({ stack: 'postgres' })
      direct = new pg.Client({ connectionString: parley.stores.settings.DATABASE_URL ?? '' })
      await direct.connect()
      await direct.query('SET session_replication_role = replica; SET search_path = pgboss, public')
      // Creating the indexes afterwards takes a third of the time. They are created one by one, because the server locks the
      // same tables in different orders.
      const { rows } = await direct.query<{ name: string; definition: string }>(
        `SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index
      WHERE NOT indisunique AND indrelid::regclass::text = ANY($1)`,
        [LARGE.map((table) => `"${table}"`)],
      )
      for (const { name } of rows) await direct.query(`DROP INDEX ${name}`)
      await direct.query(FILL)
      for (const { definition } of rows) await direct.query(definition)
      await direct.query('ANALYZE')
    }, 600_000)
    afterAll(async () => {
      pg.Client.prototype.query = query
      await direct?.end()
      await parley?.close()
    })

    function record() {
      pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
        const [given] = args as [string | { text?: string; values?: unknown[] }]
        const text = typeof given === 'string' ? given : (given.text ?? '')
        if (this !== direct && LARGE.some((table) => text.includes(`"${table}"`)))
          statements.set(text, {
            text,
            values: typeof given === 'string' ? ((args[1] as unknown[]) ?? []) : (given.values ?? []),
          })
        return query.apply(this, args as never)
      } as never
    }

    async function scenario() {
      const { app, models } = parley
      const thinking = thinkingOn(parley)
      const human: HumanViewer = await parley.human('Husam')
      const ask = {
        name: 'ask',
        description: 'Asks.',
        inputSchema: { type: 'object' },
        execution: 'SPACE' as const,
        visible: true,
      }
      const ada = await parley.agent('Ada', { tools: [ask] })
      const bob = await parley.agent('Bob', { toolset: 'SPACE_TOOLS' })
      const mia = await thinking.bot('Mia', { urgentInjection: true, inboxPreview: true })
      const room = await parley.space(human, [ada.id])
      const team = await parley.space(human, [bob.id, mia.id], { routing: 'ADMIN', adminAgentId: bob.id })
      const chain = await parley.space(human, [ada.id, bob.id], { routing: 'MENTION_CHAIN' })
      models.script(() => [{ text: 'Done.' }])
      models.script(
        forAgent(
          'Ada',
          steps(
            [{ toolCall: 'enter_space', input: { spaceId: room.id } }],
            [
              { toolCall: 'read_messages' },
              { toolCall: 'get_my_runs' },
              { toolCall: 'set_memories', input: { memories: [{ key: 'a', value: 'b' }] } },
            ],
            [
              { toolCall: 'set_goals', input: { goals: [{ description: 'x' }] } },
              { toolCall: 'set_plans', input: { plans: [{ name: 'p', instruction: 'x', afterSeconds: 3600 }] } },
            ],
            [{ toolCall: 'send_message', input: { text: 'Hello' } }],
            [{ toolCall: 'ask' }],
          ),
        ),
      )
      const sent = await parley.send(human, room.id, 'Begin')
      const runId = sent.runs[0]?.id ?? ''
      await parley.runWhen(runId, 'WAITING_TOOL')
      const [call] = await app.platform.db.prisma.toolCall.findMany({ where: { runId, status: 'WAITING' } })
      await app.domain.control.submitToolResult(human, { toolCallId: call?.id ?? '', result: { ok: true } })
      await parley.runWhen(runId)
      const mention = [
        {
          toolCall: 'sendSpaceMessage',
          input: {
            spaceId: team.id,
            text: 'Mia?',
            mention: mia.id,
            wait: { for: [{ type: 'entity', entityId: mia.id }], timeout: 20 },
          },
        },
      ]
      models.script(
        when(
          ({ instructions }) => instructions.startsWith('You are Bob'),
          steps([{ toolCall: 'readSpaceMessages', input: { spaceId: team.id } }, { toolCall: 'getMyRuns' }], mention),
        ),
      )
      models.script(
        forAgent(
          'Mia',
          steps(
            [{ toolCall: 'enter_space', input: { spaceId: team.id } }],
            [{ toolCall: 'send_message', input: { text: 'Here.' } }],
          ),
        ),
      )
      const { runs } = await parley.send(human, team.id, 'Ask Mia')
      await parley.runWhen(runs[0]?.id ?? '')
      await thinking.rest(mia)
      models.script(
        forAgent(
          'Ada',
          steps([
            { toolCall: 'enter_space', input: { spaceId: chain.id } },
            { toolCall: 'mentionAgent', input: { targetAgentEntityId: bob.id, expectReply: true } },
          ]),
        ),
      )
      models.script(forAgent('Bob', () => [{ toolCall: 'skip', input: {} }]))
      const chained = await app.domain.sending.send(human, { spaceId: chain.id, text: 'Go', mentionedAgentId: ada.id })
      await parley.runWhen(chained.runs[0]?.id ?? '')
      models.script(() => [{ hang: true }])
      const hung = await parley.send(human, room.id, 'Hang')
      await parley.runWhen(hung.runs[0]?.id ?? '', 'RUNNING')
      await app.domain.control.stopRun(human, { runId: hung.runs[0]?.id ?? '', cascade: true })
      for (const [viewer, operation, id] of [
        [human, SPACES, ''],
        [parley.admin, AGENT, ada.id],
        [parley.admin, AGENT, mia.id],
      ] as const) {
        const client = await parley.clientOf(viewer)
        const { data, errors } = await client.ask(operation, id === '' ? {} : { id })
        expect([errors, Boolean(data)]).toEqual([undefined, true])
      }
      await keepNothing()
    }

    /** All ended rows are old. */
    function keepNothing(): Promise<void> {
      const { platform } = parley.app
      const clock = { ...platform.clock, now: () => Date.now() + 2 * DAY_MS }
      const retention = { messagesDays: 1, runsDays: 1, auditDays: 1 }
      return createRetention({ ...platform, clock, config: { ...platform.config, retention } }).sweep()
    }

    /** Returns the statements that would scan a whole large table. */
    async function readingAll(): Promise<string[]> {
      const found: string[] = []
      const { rows } = await direct.query<{ name: string }>(
        'SELECT relname AS name FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indpred IS NOT NULL',
      )
      const partial = new Set(rows.map(({ name }) => name))
      for (const { text, values } of statements.values()) {
        const plan = await direct.query({ text: `EXPLAIN (FORMAT JSON) ${text}`, values: values as never })
        const reads = wholeReads(plan.rows[0]['QUERY PLAN'][0].Plan, partial)
        if (reads.length > 0) found.push(`${reads.join(', ')}: ${text.replace(/\s+/g, ' ').slice(0, 400)}`)
      }
      return found
    }

    test('use an index instead of reading a whole large table', async () => {
      record()
      await scenario()
      await until('the sweep of open messages has run', () => [...statements.keys()].some((text) => SWEEP.test(text)))
      pg.Client.prototype.query = query
      expect(statements.size).toBeGreaterThan(60)
      for (const table of ['Message', 'Run'])
        expect([...statements.keys()].filter((text) => text.includes(`DELETE FROM "${table}" WHERE`))).not.toEqual([])
      expect(await readingAll()).toEqual([])
      await direct.query('UPDATE pg_class SET reltuples = $1 WHERE relname = ANY($2)', [ROWS_OF_YEARS, LARGE])
      expect(await readingAll()).toEqual([])
    }, 120_000)
  },
)
