import { describe, expect, test, vi } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { createRetention } from '../../src/operation/retention.ts'
import type { Database } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { RULE_STACKS, startApplication } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { type Named, playScenarios, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const DAY_MS = 86_400_000

const PAGE = `query ($id: ID!, $first: Int, $last: Int, $after: String, $before: String) {
  space(id: $id) { streamCursor messages(first: $first, last: $last, after: $after, before: $before) {
    edges { node { id seq text run { id } parts { ... on ToolCallPart { toolCall { toolName input run { id } } } } } }
    pageInfo { hasNextPage hasPreviousPage } } }
}`
const FOLLOW = `subscription ($id: ID!, $after: StreamCursor!) {
  spaceMessages(spaceId: $id, after: $after) { __typename ... on MessagePosted { message { seq } } ... on MessageUpdated { message { seq } } }
}`
const MIND = `query ($id: ID!) { agent(id: $id) { internals { consciousness { messages } } } }`

/**
 * Returns the backends that wait for the row of a space. PostgreSQL keeps the first 1,024 bytes of a statement, so retention is
 * recognized by the beginning.
 */
const waiting = ({ prisma }: Database) => prisma.$queryRaw<object[]>`
  SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND (query LIKE '%"Space"%' OR query LIKE '%parley.retention%')`

describe.each(RULE_STACKS)('retention, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(stack, (opened) => {
    ;({ parley, stage } = opened)
  })

  /** Runs retention with a clock that is this many days ahead. */
  const sweepIn = (
    days: number,
    keep: { messagesDays?: number; runsDays?: number },
    platform: Platform = parley.app.platform,
  ) => {
    const retention = { messagesDays: null, runsDays: null, auditDays: null, ...keep }
    const clock = { ...platform.clock, now: () => Date.now() + days * DAY_MS }
    return createRetention({ ...platform, clock, config: { ...platform.config, retention } }).sweep()
  }
  const pageOf = async (client: typeof stage.admin, { id }: Named, page: object = {}): Promise<Read> => {
    const space = await stage.ask(client, PAGE, { id, ...page })
    const { edges, pageInfo } = space.messages
    return { nodes: edges.map(({ node }: Read) => node), ...pageInfo, cursor: space.streamCursor }
  }

  test('deleted messages leave a gap that clients can detect, in pages and in streams', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada')
    const space = await stage.space('Team', [husam, ada])
    const { cursor } = await pageOf(husam.client, space)
    for (const text of ['One', 'Two', 'Three']) await stage.say(husam, space, text)
    await stage.endedRuns(ada, 3)
    const old = (await pageOf(husam.client, space)).nodes.map(({ id }: Read) => id)
    await sweepIn(29, { messagesDays: 30 })
    expect((await pageOf(husam.client, space)).nodes).toHaveLength(3)
    await sweepIn(31, { messagesDays: 30 })
    expect(await pageOf(husam.client, space)).toMatchObject({ nodes: [], hasNextPage: false, hasPreviousPage: false })
    for (const text of ['Four', 'Five']) await stage.say(husam, space, text)
    const all = { nodes: [{ seq: 4 }, { seq: 5 }], hasNextPage: false, hasPreviousPage: false }
    expect(await pageOf(husam.client, space)).toMatchObject(all)
    expect(await pageOf(husam.client, space, { first: 2, after: old[2] })).toMatchObject(all)
    expect(await pageOf(husam.client, space, { last: 1 })).toMatchObject({ nodes: [{ seq: 5 }], hasPreviousPage: true })
    expect(await pageOf(husam.client, space, { last: 2, before: old[1] })).toMatchObject({
      nodes: [],
      hasNextPage: true,
      hasPreviousPage: false,
    })
    const logged = vi.spyOn(parley.app.platform.logger, 'error')
    const following = husam.client.subscribe(FOLLOW, { id: space.id, after: cursor })
    await following.first(
      ({ spaceMessages: event }: Read) => event.__typename === 'MessagePosted' && event.message.seq === 5,
    )
    await stage.say(husam, space, 'Six')
    await following.first(
      ({ spaceMessages: event }: Read) => event.__typename === 'MessagePosted' && event.message.seq === 6,
    )
    const posted = following.seen.flatMap(({ spaceMessages: event }: Read) =>
      event.__typename === 'MessagePosted' ? [event.message.seq] : [],
    )
    expect(posted).toEqual([4, 5, 6])
    expect(logged).not.toHaveBeenCalled()
    following.stop()
  })

  test('runs are deleted with their journals; a call that a message shows is kept as long as the message', async () => {
    const husam = await stage.person('Husam')
    const tool = {
      name: 'chart',
      description: 'Shows a chart.',
      inputSchema: { type: 'object' },
      execution: 'INTERNAL',
      visible: true,
    }
    const ada = await stage.bot('Ada', { tools: [tool] })
    const space = await stage.space('Team', [husam, ada])
    parley.models.script(
      forAgent(
        'Ada',
        steps(
          [sayIn(space.id, 'Look.')],
          [{ toolCall: 'chart', input: { targetSpaceId: space.id, x: 1 } }],
          [{ text: '' }],
        ),
      ),
    )
    await stage.say(husam, space, 'Show me')
    const [run] = await stage.endedRuns(ada, 1)
    await sweepIn(11, { runsDays: 10 })
    expect(await stage.runsOf(ada)).toEqual([])
    const { prisma } = parley.app.platform.db
    expect(await prisma.step.count({ where: { runId: run.id } })).toBe(0)
    const [, answer] = (await pageOf(husam.client, space)).nodes
    expect(answer).toMatchObject({ text: 'Look.', run: null })
    expect(answer.parts.at(-1)).toEqual({ toolCall: { toolName: 'chart', input: { x: 1 }, run: null } })
    await sweepIn(31, { messagesDays: 30 })
    expect(await prisma.toolCall.count({ where: { runId: run.id } })).toBe(0)
    expect((await pageOf(husam.client, space)).nodes).toEqual([])
  })

  test('the cycles of a persistent agent are not deleted as runs are, but stay', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const space = await stage.space('Team', [husam, ada], { routing: 'BROADCAST' })
    for (const [index, text] of ['First things', 'Second things'].entries()) {
      await stage.say(husam, space, text)
      await stage.endedRuns(ada, index + 1)
    }
    await sweepIn(40, { runsDays: 10, messagesDays: 10 })
    expect(await stage.runsOf(ada)).toHaveLength(1)
    const { internals } = await stage.ask(stage.admin, MIND, { id: ada.id })
    expect(JSON.stringify(internals.consciousness.messages)).toMatch(/First things.*Second things/)
    await stage.say(husam, space, 'Third things')
    await stage.endedRuns(ada, 2)
    const last = parley.models.requests.at(-1)
    expect(last?.messages.map(({ text }) => text).join('\n')).toMatch(
      /First things[\s\S]*Second things[\s\S]*Third things/,
    )
  })

  /** Creates an agent whose only event was skipped by a cycle that was then rolled back. */
  async function skippedEvent(): Promise<{ agentId: string }> {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const space = await stage.space('Team', [husam, ada], { routing: 'BROADCAST' })
    parley.models.script(() => [{ toolCall: 'skip', input: {} }])
    await stage.say(husam, space, 'Not for you')
    const { prisma } = parley.app.platform.db
    const where = { agentId: ada.id }
    await until(
      'it is skipped',
      async () => (await prisma.inboxEvent.count({ where: { ...where, doneAt: { not: null } } })) === 1,
    )
    await until('its cycle is rolled back', async () => (await prisma.run.count({ where })) === 0)
    return where
  }

  test('the inbox event of a cycle that was skipped and rolled back is deleted too', async () => {
    const { prisma } = parley.app.platform.db
    const where = { ...(await skippedEvent()), doneAt: { not: null } }
    await sweepIn(9, { runsDays: 10 })
    expect(await prisma.inboxEvent.count({ where })).toBe(1)
    await sweepIn(11, { runsDays: 10 })
    expect(await prisma.inboxEvent.count({ where })).toBe(0)
  })

  test('an event that is claimed again just after the lookup stays', async () => {
    const { platform } = parley.app
    const { prisma } = platform.db
    const where = await skippedEvent()
    const found: object[] = []
    const query: Database['query'] = async (statement) => {
      const rows = await platform.db.query<never>(statement)
      if (found.length === 0 && statement.sql.includes('FROM "InboxEvent" t') && rows.length > 0) {
        found.push(...rows)
        await prisma.inboxEvent.updateMany({ where, data: { doneAt: null, waitsUntil: new Date('2999-01-01') } })
      }
      return rows
    }
    await sweepIn(11, { runsDays: 10 }, { ...platform, db: { ...platform.db, query } })
    expect(found).toHaveLength(1)
    expect(await prisma.inboxEvent.count({ where: { ...where, doneAt: null } })).toBe(1)
  })

  test('an agent forgets a deleted space, even if the runs that read it were deleted long ago', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const kept = await stage.space('Kept', [husam, ada], { routing: 'BROADCAST' })
    const lost = await stage.space('Lost', [husam, ada], { routing: 'BROADCAST' })
    for (const [index, space] of [lost, kept, kept].entries()) {
      await stage.say(husam, space, `Heard in ${space.name}`)
      await stage.endedRuns(ada, index + 1)
    }
    await sweepIn(40, { runsDays: 10 })
    expect(await stage.runsOf(ada)).toHaveLength(1)
    await parley.app.domain.deletion.deleteSpace(parley.admin, { id: lost.id })
    const { internals } = await stage.ask(stage.admin, MIND, { id: ada.id })
    const mind = JSON.stringify(internals.consciousness.messages)
    expect(mind).toContain('Heard in Kept')
    expect(mind).not.toContain('Heard in Lost')
  })

  test('concurrent workers delete many rows in small batches, each row once', async () => {
    const husam = await stage.person('Husam')
    const space = await stage.space('Team', [husam])
    const { prisma } = parley.app.platform.db
    await prisma.$executeRaw`
      INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "createdAt")
      SELECT 'msg_' || lpad(to_hex(n), 32, '0'), ${space.id}, n, ${husam.id}, 'COMPLETE', '[]', '', 0, now() - interval '1 year'
      FROM generate_series(1, 350) n`
    await prisma.space.update({ where: { id: space.id }, data: { lastSeq: 350 } })
    await Promise.all([sweepIn(0, { messagesDays: 30 }), sweepIn(0, { messagesDays: 30 })])
    await sweepIn(0, { messagesDays: 30 })
    expect(await prisma.message.count({ where: { spaceId: space.id } })).toBe(0)
    expect((await stage.say(husam, space, 'Next')).sentMessage).toBeDefined()
    expect(await pageOf(husam.client, space)).toMatchObject({ nodes: [{ seq: 351 }], hasPreviousPage: false })
  })

  test.skipIf(stack !== 'postgres')('a lock on one space does not delay a message in another', async () => {
    const husam = await stage.person('Husam')
    const [free, used] = [await stage.space('Free', [husam]), await stage.space('Used', [husam])]
    for (const space of [free, used]) await stage.say(husam, space, 'Old')
    const { db } = parley.app.platform
    const { promise: isHeld, resolve: held } = Promise.withResolvers<void>()
    const { promise: mayCommit, resolve: commit } = Promise.withResolvers<void>()
    const using = db.transaction(async (tx) => {
      await tx.$executeRaw`SELECT 1 FROM "Space" WHERE id = ${used.id} FOR NO KEY UPDATE`
      held()
      await mayCommit
    })
    await isHeld
    const sweeping = sweepIn(1, { messagesDays: 0 })
    await until('retention waits for the space', async () => (await waiting(db)).length > 0)
    await stage.say(husam, free, 'New')
    commit()
    await Promise.all([using, sweeping])
    expect((await pageOf(husam.client, free)).nodes).toMatchObject([{ text: 'New' }])
    expect((await pageOf(husam.client, used)).nodes).toEqual([])
  })

  test.skipIf(stack !== 'postgres')('a message posted during the deletion of all others stays visible', async () => {
    const husam = await stage.person('Husam')
    const space = await stage.space('Team', [husam])
    await stage.say(husam, space, 'Old')
    const { db } = parley.app.platform
    const { promise: isPosted, resolve: posted } = Promise.withResolvers<void>()
    const { promise: mayCommit, resolve: commit } = Promise.withResolvers<void>()
    const posting = db.transaction(async (tx) => {
      const { lastSeq: seq } = await tx.space.update({ where: { id: space.id }, data: { lastSeq: { increment: 1 } } })
      const createdAt = new Date(Date.now() + DAY_MS)
      const id = newId('msg')
      const parts = [{ type: 'text', text: 'New' }]
      await tx.message.create({
        data: {
          id,
          spaceId: space.id,
          seq,
          senderId: husam.id,
          status: 'COMPLETE',
          parts,
          rootId: id,
          depth: 0,
          createdAt,
        },
      })
      posted()
      await mayCommit
    })
    await isPosted
    const sweeping = sweepIn(0.5, { messagesDays: 0 })
    await until('retention waits for the space', async () => (await waiting(db)).length > 0)
    commit()
    await Promise.all([posting, sweeping])
    expect(await pageOf(husam.client, space)).toMatchObject({ nodes: [{ text: 'New' }] })
    expect(await db.prisma.space.findUnique({ where: { id: space.id } })).toMatchObject({ firstSeq: 2, lastSeq: 2 })
  })
})

test.each(RULE_STACKS)('a worker with retention settings deletes older data, on the %s stack', async (stack) => {
  const days = { PARLEY_KEEP_MESSAGES_DAYS: '2', PARLEY_KEEP_RUNS_DAYS: '2', PARLEY_KEEP_AUDIT_DAYS: '2' }
  const parley = await startApplication({ stack, worker: false, settings: days })
  const human = await parley.human('Husam')
  const space = await parley.space(human, [])
  const { prisma } = parley.app.platform.db
  for (const age of [3, 1]) {
    const { message } = await parley.send(human, space.id, `${age} days ago`)
    const createdAt = new Date(Date.now() - age * DAY_MS)
    const id = `msg_${createdAt.getTime().toString(16).padStart(12, '0')}${'0'.repeat(20)}`
    await prisma.message.update({ where: { id: message.id }, data: { id, createdAt } })
  }
  await parley.app.startWorker()
  const left = async () => (await parley.messages(space.id)).map(({ parts }) => parts)
  await until('the older one is gone', async () => (await left()).length === 1)
  expect(await left()).toEqual([[{ type: 'text', text: '1 days ago' }]])
  await parley.close()
})
