import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { newId } from '../../src/lib/ids.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const VIEWERS = 450
const WATCH = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) {
  __typename
  ... on MessagePosted { message { text space { unreadCount } } }
  ... on MessagePartChanged { part { ... on ToolCallPart { toolCall { id status input output error } } } }
} }`

describe.skipIf(!hasPostgres)(`an event that ${VIEWERS} viewers of a space are told`, () => {
  let parley: TestServer
  let statements = 0
  const { query } = pg.Client.prototype
  const sockets: WebSocket[] = []
  /** What each viewer was told, but for its first answer. */
  const told: string[][] = []
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
      if (/"(Message|Membership|Space|ToolCall|Run|Entity)"/.test(sql)) statements += 1
      return query.apply(this, args as never)
    } as never
  }, 60_000)
  afterAll(async () => {
    pg.Client.prototype.query = query
    for (const socket of sockets) socket.terminate()
    await parley?.close()
  })

  async function watch(id: string): Promise<void> {
    const token = await parley.tokenOf({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    const seen: string[] = []
    sockets.push(socket)
    told.push(seen)
    const { promise: begun, resolve } = Promise.withResolvers<void>()
    socket.on('message', (data) => {
      const { type, payload } = JSON.parse(String(data))
      if (type === 'connection_ack') {
        const operation = { query: WATCH, variables: { spaceId } }
        socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: operation }))
      }
      if (type !== 'next') return
      if (payload.data?.spaceMessages.__typename === 'SpaceSnapshot') resolve()
      else seen.push(JSON.stringify(payload.data ?? payload.errors))
    })
    socket.once('open', () =>
      socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } })),
    )
    await begun
  }

  /** Tells an event five times; answers with what all were told, and how many statements that took at least and at most. */
  async function tell(event: { type: string; [field: string]: unknown }) {
    const answers = new Set<string>()
    const taken: number[] = []
    for (let times = 0; times < 5; times++) {
      for (const seen of told) seen.length = 0
      const before = statements
      await parley.app.platform.log.append(`space:${spaceId}`, event)
      await until('everybody is told', () => told.every((seen) => seen.length === 1))
      taken.push(statements - before)
      for (const answer of told.flat()) answers.add(answer)
    }
    return { answers, most: Math.max(...taken), least: Math.min(...taken) }
  }

  test('takes three statements where each is told something of its own, or a few more, not one for each', async () => {
    const { answers, least, most } = await tell({ type: 'MessagePosted', messageId })
    expect([...answers].map((text) => JSON.parse(text))).toEqual([
      { spaceMessages: { __typename: 'MessagePosted', message: { text: 'Good morning!', space: { unreadCount: 1 } } } },
    ])
    expect(least).toBeLessThanOrEqual(3)
    // A few more where a slow machine has not come to all of them in one go.
    expect(most).toBeLessThanOrEqual(9)
  })

  test('takes no look at who may see a call that is shown there', async () => {
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
    const { answers, least, most } = await tell({ type: 'MessagePartChanged', messageId, partIndex: 0 })
    expect([...answers].map((text) => JSON.parse(text).spaceMessages.part.toolCall)).toEqual([
      { id: toolCallId, status: 'RUNNING', input: { at: 1 }, output: null, error: null },
    ])
    expect(least).toBeLessThanOrEqual(3)
    // A few more where a slow machine has not come to all of them in one go.
    expect(most).toBeLessThanOrEqual(9)
  })
})
