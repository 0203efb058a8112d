import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { encodeCursor, newEpoch } from '../../src/broker/cursor.ts'
import { newId } from '../../src/lib/ids.ts'
import { runsOf } from '../support/effort.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const VIEWERS = runsOf({ usual: 150, nightly: 450 })
const WATCH = `subscription ($spaceId: ID!, $after: StreamCursor) { spaceMessages(spaceId: $spaceId, after: $after) {
  __typename cursor
  ... on SpaceSnapshot { space { unreadCount firstUnreadMessage { text } } }
  ... on MessagePosted { message { text space { unreadCount } } }
  ... on MessagePartChanged { part { ... on ToolCallPart { toolCall { id status input output error } } } }
} }`

const POSTED = { __typename: 'MessagePosted', message: { text: 'Good morning!', space: { unreadCount: 1 } } }

interface Watcher {
  socket: WebSocket
  /** The events of the viewer's subscription, or errors. */
  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  seen: any[]
  /** The number of the current subscription. The previous ones have ended. */
  number: number
}

describe.skipIf(!hasPostgres)(`an event for ${VIEWERS} viewers of a space`, () => {
  let parley: TestServer
  const statements: string[] = []
  const { query } = pg.Client.prototype
  const viewers: Watcher[] = []
  let spaceId: string
  let messageId: string

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'postgres', worker: false, settings: { PARLEY_ROLE: 'api' } })
    const { prisma } = parley.app.platform.db
    const creator = await parley.human('Ada')
    const agent = await parley.agent('Echo')
    spaceId = (await parley.space(creator, [agent.id])).id
    const ids = Array.from({ length: VIEWERS }, () => newId('hum'))
    await prisma.entity.createMany({ data: ids.map((id, n) => ({ id, kind: 'HUMAN' as const, name: `Viewer ${n}` })) })
    await prisma.membership.createMany({ data: ids.map((entityId) => ({ spaceId, entityId })) })
    messageId = (await parley.send(creator, spaceId, 'Good morning!')).message.id
    for (let from = 0; from < VIEWERS; from += 50) {
      await Promise.all(ids.slice(from, from + 50).map((id) => watch(id)))
    }
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
      const [text] = args as [{ text?: string } | string]
      const sql = typeof text === 'string' ? text : (text.text ?? '')
      if (/"(Message|Membership|Space|ToolCall|Run|Entity)"/.test(sql)) statements.push(sql)
      return query.apply(this, args as never)
    } as never
  }, 60_000)
  afterAll(async () => {
    pg.Client.prototype.query = query
    for (const { socket } of viewers) socket.terminate()
    await parley?.close()
  })

  /** Opens a socket for the viewer, and subscribes. */
  async function watch(id: string): Promise<void> {
    const token = await parley.tokenOf({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    const { promise: begun, resolve } = Promise.withResolvers<void>()
    const viewer: Watcher = { socket, seen: [], number: 0 }
    viewers.push(viewer)
    socket.on('message', (data) => {
      const { type, id: number, payload } = JSON.parse(String(data))
      if (type === 'connection_ack') subscribe(viewer)
      if (type !== 'next' || number !== String(viewer.number)) return
      viewer.seen.push(payload.data?.spaceMessages ?? payload.errors)
      resolve()
    })
    socket.once('open', () =>
      socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } })),
    )
    await begun
  }

  /** Replaces the viewer's previous subscription. */
  function subscribe(viewer: Watcher, after?: string): void {
    const { socket, number } = viewer
    if (number > 0) socket.send(JSON.stringify({ id: String(number), type: 'complete' }))
    viewer.number += 1
    viewer.seen = []
    const payload = { query: WATCH, variables: { spaceId, after } }
    socket.send(JSON.stringify({ id: String(viewer.number), type: 'subscribe', payload }))
  }

  /** Returns the events of all viewers, without duplicates. */
  const answers = () => {
    const texts = viewers.flatMap(({ seen }) => seen.map(({ cursor, ...event }) => JSON.stringify(event)))
    return [...new Set(texts)].map((text) => JSON.parse(text))
  }

  /** Publishes an event five times. Returns the smallest and the largest number of statements. */
  async function tell(event: { type: string; [field: string]: unknown }) {
    const taken: number[] = []
    for (let times = 0; times < 5; times++) {
      for (const viewer of viewers) viewer.seen = []
      statements.length = 0
      await parley.app.platform.log.append(`space:${spaceId}`, event)
      await until('all viewers have the event', () => viewers.every(({ seen }) => seen.length === 1))
      taken.push(statements.length)
    }
    return { most: Math.max(...taken), least: Math.min(...taken) }
  }

  test('takes three statements for personal payloads, or a few more, but not one for each viewer', async () => {
    const { least, most } = await tell({ type: 'MessagePosted', messageId })
    expect(answers()).toEqual([POSTED])
    expect(least).toBeLessThanOrEqual(3)
    // Allow a few more, because a slow machine may process the viewers in several batches.
    expect(most).toBeLessThanOrEqual(9)
  })

  /** The lookup of unread messages is personal. */
  const counts = () => statements.filter((sql) => sql.includes('"lastReadSeq"'))

  test('takes a few statements if all resume with missed events at the same time', async () => {
    const { cursor } = viewers[0]!.seen.at(-1)!
    for (let times = 0; times < 3; times++)
      await parley.app.platform.log.append(`space:${spaceId}`, { type: 'MessagePosted', messageId })
    await until('all viewers have the event', () => viewers.every(({ seen }) => seen.length >= 3))
    statements.length = 0
    for (const viewer of viewers) subscribe(viewer, cursor)
    await until('all viewers have the missed events', () => viewers.every(({ seen }) => seen.length === 3))
    expect(answers()).toEqual([POSTED])
    expect(counts().length).toBeLessThanOrEqual(30)
  })

  test('takes a few statements if all return after a gap, and start with a snapshot', async () => {
    statements.length = 0
    for (const viewer of viewers) subscribe(viewer, encodeCursor({ epoch: newEpoch(), offset: 7 }))
    await until('all viewers have a snapshot', () => viewers.every(({ seen }) => seen.length === 1))
    const space = { unreadCount: 1, firstUnreadMessage: { text: 'Good morning!' } }
    expect(answers()).toEqual([{ __typename: 'SpaceSnapshot', space }])
    expect(counts().length).toBeLessThanOrEqual(20)
  })

  test('takes no access check for a call that is shown in the space', async () => {
    const { prisma } = parley.app.platform.db
    const [agent] = await prisma.entity.findMany({ where: { kind: 'AGENT' } })
    const [runId, toolCallId] = [newId('run'), newId('tcl')]
    await prisma.run.create({
      data: {
        id: runId,
        agentId: agent!.id,
        status: 'RUNNING',
        depth: 0,
        rootId: runId,
        triggerType: 'SPACE_MESSAGE',
        triggerSummary: 'x',
      },
    })
    const call = { id: toolCallId, runId, agentId: agent!.id, messageId, spaceId, toolName: 'look', input: { at: 1 } }
    await prisma.toolCall.create({
      data: { ...call, stepIndex: 0, modelCallId: 'c', execution: 'HTTP', status: 'RUNNING' },
    })
    await prisma.message.update({ where: { id: messageId }, data: { parts: [{ type: 'tool', toolCallId }] } })
    const { least, most } = await tell({ type: 'MessagePartChanged', messageId, partIndex: 0 })
    expect(answers().map(({ part }) => part.toolCall)).toEqual([
      { id: toolCallId, status: 'RUNNING', input: { at: 1 }, output: null, error: null },
    ])
    expect(least).toBeLessThanOrEqual(3)
    // Allow a few more, because a slow machine may process the viewers in several batches.
    expect(most).toBeLessThanOrEqual(9)
  })
})
