import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'vitest'
import { spaceTopic } from '../../src/broker/topics.ts'
import { lapseLeases } from '../support/broken-runs.ts'
import { createFrailty, type Fate, PASSES, type Statement } from '../support/frail.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

/** A server whose worker runs only after a crash. The servers that crash use the same database. */
export interface World {
  parley: TestServer
  admin: string
  /** The URL of a service that returns a file to every request. */
  fileUrl: string
  /** Creates a person. Returns the id, and a token. */
  person(name: string, input?: object): Promise<{ id: string; token: string }>
  agent(name: string, input?: object): Promise<{ id: string; name: string }>
  space(memberIds: string[], input?: object): Promise<string>
  say(token: string, spaceId: string, text: string, more?: object): Promise<Read>
  /** Executes a GraphQL operation, by default at this server. @throws unless it succeeds */
  ask(token: string, operation: string, variables?: object, origin?: string): Promise<Read>
  /** Runs `work` while this server has a worker, until nothing is left to do. */
  working<T>(work?: () => Promise<T>): Promise<T | undefined>
  close(): Promise<void>
}

/** A request of a client, and everything that the request needs. */
export interface Prepared {
  /** @throws if the server refuses the request */
  request(origin: string): Promise<unknown>
  /** The spaces to whose events the owner of `token` subscribes. */
  watches?: { token: string; spaceIds: string[] }
}

export interface Play {
  name: string
  /** The files of src/flows that the request executes. */
  files: string[]
  /** Whether the process that crashes also executes runs and jobs. */
  worker?: true
  /** Whether a client can repeat the request after a crash without doubling its effect. */
  isRepeatable: boolean
  /** Events that a crash can still lose, which is a known fault. */
  losesEvents?: string[]
  prepare(world: World, name: string): Promise<Prepared>
}

/** The rows and events that a request has created. */
interface Remains {
  /** `<table> <status>`, with the number of new rows, which is negative if rows were deleted. */
  rows: Record<string, number>
  /** The texts of the new complete messages, sorted. */
  texts: string[]
  /** The types of the events in the watched spaces since the request, except deltas. */
  events: string[]
}

/** Tables whose rows belong to processes, are shared by several requests, or count requests. */
const IGNORED = [
  'AuditEntry',
  'ReadinessCheck',
  'ModelProviderHealth',
  'PushKeys',
  'ServerDefault',
  'DailyUsage',
  'HumanUsage',
  'SearchModel',
  'SearchVector',
  'FileStorageUse',
  'FileObject',
  'UploadedBytes',
]
const STATES = ['status', 'kind', 'approvalState', 'triggerType', 'action', 'toolName', 'type']
const MARKS = ['doneAt', 'goneAt', 'deletedAt', 'revokedAt', 'finishedAt', 'settledAt']

export async function openWorld(settings: Record<string, string>): Promise<World> {
  const parley = await startTestServer({ stack: 'postgres', worker: false, isFresh: true, settings })
  const { prisma } = parley.app.platform.db
  const admin = await parley.tokenOf(parley.admin)
  const files = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/zip' }).end('some bytes')
  })
  await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve))
  parley.models.script(() => [{ text: 'Nothing to do.' }])

  async function ask(token: string, operation: string, variables: object = {}, origin = parley.origin): Promise<Read> {
    const client = createParleyClient({ origin, token })
    try {
      const { data, errors } = await client.ask<Record<string, Read>>(operation, variables)
      const result = Object.values(data ?? {})[0]
      if (errors !== undefined || /Error$/.test(result?.__typename ?? ''))
        throw new Error(`${operation}\nanswered ${JSON.stringify(errors ?? result)}`)
      return result
    } finally {
      await client.close()
    }
  }

  const isIdle = async () => {
    const [found] = await prisma.$queryRaw<{ isIdle: boolean }[]>`
      SELECT NOT EXISTS (SELECT 1 FROM "Run" WHERE status IN ('QUEUED', 'RUNNING') OR (status = 'WAITING_TOOL' AND "claimableAt" IS NOT NULL))
        AND NOT EXISTS (SELECT 1 FROM "InboxEvent" WHERE "doneAt" IS NULL)
        AND NOT EXISTS (SELECT 1 FROM "Message" WHERE status = 'STREAMING')
        AND NOT EXISTS (SELECT 1 FROM "ToolCall" WHERE "carryAt" IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM "RootUsage" WHERE "tellAt" IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM pgboss.job WHERE state < 'completed' AND singleton_on IS NULL AND name <> 'failed-jobs'
          AND start_after < now() + interval '1 minute') AS "isIdle"`
    return found?.isIdle === true
  }

  return {
    parley,
    admin,
    fileUrl: `http://127.0.0.1:${(files.address() as AddressInfo).port}/`,
    async close() {
      files.closeAllConnections()
      await new Promise((resolve) => files.close(resolve))
      await parley.close()
    },
    ask,
    async person(name, input = {}) {
      const { human } = await ask(admin, CREATE_HUMAN, { input: { name, ...input } })
      return { id: human.id, token: (await ask(admin, TOKEN, { grant: { humanId: human.id } })).secret }
    },
    async agent(name, input = {}) {
      const all = {
        name,
        instructions: 'Answer.',
        model: 'openai.chat:test',
        toolset: 'ACTIVE_SPACE',
        plainText: 'INTERNAL',
      }
      return (await ask(admin, CREATE_AGENT, { input: { ...all, mind: 'STATELESS', ...input } })).agent
    },
    async space(memberIds, input = {}) {
      return (await ask(admin, CREATE_SPACE, { input: { name: 'A space', memberIds, ...input } })).space.id
    },
    say: (token, spaceId, text, more = {}) => ask(token, SEND, { input: { spaceId, text, ...more } }),
    async working<T>(work?: () => Promise<T>) {
      await parley.app.startWorker()
      const result = await work?.()
      await until('nothing is left to do', isIdle)
      await parley.app.stopWorker(500)
      return result
    },
  }
}

const CREATE_HUMAN = `mutation ($input: CreateHumanInput!) { createHuman(input: $input) {
  __typename ... on CreateHumanPayload { human { id } } ... on Error { message } } }`
const TOKEN = `mutation ($grant: TokenGrantInput!) { createAccessToken(input: { grant: $grant }) {
  __typename ... on CreateAccessTokenPayload { secret } ... on Error { message } } }`
const CREATE_AGENT = `mutation ($input: CreateAgentInput!) { createAgent(input: $input) {
  __typename ... on CreateAgentPayload { agent { id name } } ... on Error { message } } }`
const CREATE_SPACE = `mutation ($input: CreateSpaceInput!) { createSpace(input: $input) {
  __typename ... on CreateSpacePayload { space { id } } ... on Error { message } } }`
const SEND = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) {
  __typename ... on SendMessagePayload { sentMessage { id } runs { id } } ... on Error { message } } }`
const CURSOR = 'query ($id: ID!) { space(id: $id) { streamCursor } }'
const EVENTS =
  'subscription ($spaceId: ID!, $after: StreamCursor) { spaceMessages(spaceId: $spaceId, after: $after) { __typename } }'

/** A small pool, because several servers share a PostgreSQL. */
const SMALL = { PARLEY_LOG_LEVEL: 'silent', PARLEY_DATABASE_CONNECTIONS: '5' }

let prepared = 0

/** Performs the request of a play without a crash. Returns what the request created, and the number of statements. */
export async function performWhole(world: World, play: Play): Promise<{ remains: Remains; statements: Statement[] }> {
  return perform(world, play, { fateOf: () => PASSES, isClientGone: false, whole: null })
}

/**
 * Performs the request of a play in a process that dies after a statement. Unless the client has gone too, it repeats the
 * request. Another process cleans up. Expects the same rows and events as without a crash.
 */
export async function performCrash(
  world: World,
  play: Play,
  { isLast, isClientGone }: { isLast(statement: Statement): boolean; isClientGone: boolean },
  whole: Remains,
): Promise<void> {
  const dies = (statement: Statement): Fate => (isLast(statement) ? { type: 'dies' } : PASSES)
  await perform(world, play, { fateOf: dies, isClientGone, whole })
}

async function perform(
  world: World,
  play: Play,
  {
    fateOf,
    isClientGone,
    whole,
  }: { fateOf: (statement: Statement) => Fate; isClientGone: boolean; whole: Remains | null },
): Promise<{ remains: Remains; statements: Statement[] }> {
  const { parley } = world
  prepared += 1
  const ready = await play.prepare(world, `${play.files[0]} ${prepared}`)
  const cursors = await cursorsOf(world, ready)
  const frailty = createFrailty()
  const before = await countRows(world)
  const frail = await startTestServer({
    stack: 'postgres',
    beside: parley,
    worker: play.worker === true,
    settings: { ...parley.stores.settings, ...SETTINGS.get(world), ...frailty.mark(parley.stores.settings), ...SMALL },
  })
  frailty.watch(fateOf)
  const answered = ready.request(frail.origin).then(
    () => true,
    (error) => (frailty.isDead() ? false : Promise.reject(error)),
  )
  const isAnswered = await Promise.race([frailty.death.then(() => false), answered])
  if (isAnswered && play.worker === true && !frailty.isDead()) {
    await Promise.race([frailty.death, until('the worker has nothing left to do', () => isSettled(world))])
  }
  const statements = [...frailty.statements]
  const lastText = statements.at(-1)?.text.replace(/\s+/g, ' ').trim().slice(0, 200)
  const point = `${play.name}, after statement ${statements.length}: ${lastText}`
  frailty.watch(() => PASSES)
  const hasDied = frailty.isDead()
  if (hasDied) void frail.server.close({ drain: false }).catch(() => {})
  else await frail.close()
  await until('its connections have ended', async () => (await backendsOf(world, frailty.name)) === 0)
  const read = async () => {
    const { rows, texts } = await countRows(world)
    return { rows: difference(rows, before.rows), texts: textsSince(texts, before.texts) }
  }
  const isRepeated = !isClientGone && (play.isRepeatable || Object.keys((await read()).rows).length === 0)
  if (hasDied && !isAnswered && isRepeated) await ready.request(parley.origin).catch(() => {})
  await recover(world)
  const { rows, texts } = await read()
  if (whole !== null) expect({ point, rows, texts }).toEqual({ point, rows: whole.rows, texts: whole.texts })
  const events = await eventsSince(world, ready, { cursors, expected: expectedOf(play, whole), point })
  return { remains: { rows, texts, events }, statements }
}

/** Settings of the test server that the other servers need too. */
const SETTINGS = new WeakMap<World, Record<string, string>>()
export const shareSettings = (world: World, settings: Record<string, string>) => void SETTINGS.set(world, settings)

async function isSettled({ parley }: World): Promise<boolean> {
  const [row] = await parley.app.platform.db.prisma.$queryRaw<{ isSettled: boolean }[]>`
    SELECT NOT EXISTS (SELECT 1 FROM "Run" WHERE status IN ('QUEUED', 'RUNNING') OR (status = 'WAITING_TOOL' AND "claimableAt" IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM "InboxEvent" WHERE "doneAt" IS NULL)
      AND NOT EXISTS (SELECT 1 FROM "Message" WHERE status = 'STREAMING')
      AND NOT EXISTS (SELECT 1 FROM pgboss.job WHERE state < 'completed' AND singleton_on IS NULL AND name NOT IN ('failed-jobs', 'publish-change')
        AND start_after < now() + interval '1 minute') AS "isSettled"`
  return row?.isSettled === true
}

/** Ends the leases of the dead process without waiting for them, and lets another process do the remaining work. */
async function recover(world: World): Promise<void> {
  const { app } = world.parley
  await lapseLeases(world.parley, new Date(Date.now() + 60_000))
  await app.platform.db.prisma.$executeRaw`
    UPDATE pgboss.job SET state = 'retry', retry_count = retry_count + 1, start_after = now() WHERE state = 'active'`
  await app.platform.db.prisma.$executeRaw`
    UPDATE pgboss.job SET start_after = now() WHERE name = 'publish-change' AND state < 'active'`
  await app.platform.db.prisma.$executeRaw`
    UPDATE "MessageDeletion" SET "takenUntil" = now() WHERE "takenUntil" > now()`
  await app.platform.db.prisma.$executeRaw`UPDATE "RootUsage" SET "tellAt" = now() WHERE "tellAt" IS NOT NULL`
  await app.platform.db.prisma.$executeRaw`
    UPDATE "Run" SET "claimableAt" = now() WHERE status IN ('QUEUED', 'RUNNING') AND "claimableAt" > now()`
  // Skip two waits: the sweeps leave runs that ended within the last seconds to their process, and a periodic job finishes
  // deletions.
  await app.platform.db.prisma.$executeRaw`
    UPDATE "Run" SET "finishedAt" = "finishedAt" - interval '10 seconds' WHERE "finishedAt" > now() - interval '10 seconds'`
  await world.working()
  await app.domain.deletion.sweep()
}

async function backendsOf({ parley }: World, name: string): Promise<number> {
  const rows = await parley.app.platform.db.prisma.$queryRaw<unknown[]>`
    SELECT 1 FROM pg_stat_activity WHERE application_name = ${name}`
  return rows.length
}

interface Counted {
  rows: Map<string, number>
  texts: string[]
}

const countings = new WeakMap<World, string>()

async function countRows(world: World): Promise<Counted> {
  const { prisma } = world.parley.app.platform.db
  if (!countings.has(world)) countings.set(world, await countingSql(world))
  const counts = await prisma.$queryRawUnsafe<{ name: string; count: number }[]>(countings.get(world) ?? '')
  const texts = await prisma.$queryRaw<{ text: string }[]>`
    SELECT coalesce(part->>'text', '(call)') AS text FROM "Message" m, jsonb_array_elements(m.parts) part WHERE m.status = 'COMPLETE'`
  return { rows: new Map(counts.map(({ name, count }) => [name, count])), texts: texts.map(({ text }) => text).sort() }
}

async function countingSql({ parley }: World): Promise<string> {
  const columns = await parley.app.platform.db.prisma.$queryRaw<{ table: string; columns: string[] }[]>`
    SELECT table_name AS "table", array_agg(column_name::text ORDER BY column_name) AS columns FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name NOT LIKE '\\_%' GROUP BY 1 ORDER BY 1`
  const counts = columns
    .filter(({ table }) => !IGNORED.includes(table))
    .map(({ table, columns: all }) => {
      const states = STATES.filter((name) => all.includes(name)).map((name) => `"${name}"::text`)
      const marks = MARKS.filter((name) => all.includes(name)).map(
        (name) => `CASE WHEN "${name}" IS NOT NULL THEN '${name}' END`,
      )
      return `SELECT concat_ws(' ', ${[`'${table}'`, ...states, ...marks].join(', ')}) AS name, count(*)::int AS count FROM "${table}" GROUP BY 1`
    })
  return counts.join(' UNION ALL ')
}

function difference(after: Map<string, number>, before: Map<string, number>): Record<string, number> {
  const names = [...new Set([...after.keys(), ...before.keys()])].sort()
  const changes = names.map((name) => [name, (after.get(name) ?? 0) - (before.get(name) ?? 0)] as const)
  return Object.fromEntries(changes.filter(([, change]) => change !== 0))
}

function textsSince(after: string[], before: string[]): string[] {
  const left = [...before]
  return after.filter((text) => {
    const index = left.indexOf(text)
    if (index >= 0) left.splice(index, 1)
    return index < 0
  })
}

async function cursorsOf(world: World, { watches }: Prepared): Promise<Map<string, string>> {
  const cursors = new Map<string, string>()
  for (const id of watches?.spaceIds ?? [])
    cursors.set(id, (await world.ask(watches?.token ?? '', CURSOR, { id })).streamCursor)
  return cursors
}

function expectedOf({ losesEvents = [] }: Play, whole: Remains | null): string[] | null {
  return whole === null ? null : whole.events.filter((type) => !losesEvents.includes(type))
}

/** Waits until a subscriber that resumes from before the request gets the expected events. */
async function eventsSince(
  world: World,
  { watches }: Prepared,
  { cursors, expected, point }: { cursors: Map<string, string>; expected: string[] | null; point: string },
): Promise<string[]> {
  if (watches === undefined) return []
  const { log } = world.parley.app.platform
  const client = createParleyClient({ origin: world.parley.origin, token: watches.token })
  // The unpublished messages of a space are published only if it has a subscriber.
  const subscriptions = watches.spaceIds.map((spaceId) =>
    client.subscribe<Read, Read>(EVENTS as Read, { spaceId, after: cursors.get(spaceId) }),
  )
  const read = async () => {
    const batches = await Promise.all([...cursors].map(([id, after]) => log.read(spaceTopic(id), after, 10_000)))
    const events = batches.flatMap((batch) =>
      batch.type === 'gap' ? [] : batch.publications.map(({ event }) => event),
    )
    return [...new Set(events.map(({ type }) => type).filter((type) => !MOMENTARY.includes(type)))].sort()
  }
  let events = await read()
  if (expected !== null)
    await until(
      `${point}: the events ${expected.join()} were published`,
      async () => {
        events = await read()
        return expected.every((type) => events.includes(type))
      },
      { timeoutMs: 20_000 },
    )
  for (const { stop } of subscriptions) stop()
  await client.close()
  return events
}

/** A resumed run can publish these events, or not. */
const MOMENTARY = ['MessageTextDelta', 'MessageTextReplaced']
