import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool, timeIsUp } from '../support/decisions.ts'
import { steps } from '../support/model-server-script.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

interface Notice {
  method: string
  headers: Record<string, string>
  body: string
}

/**
 * Starts a Standard Webhooks receiver. It answers the first notifications with these statuses (a redirect leads to another
 * page), and then accepts all.
 */
async function openReceiver(...statuses: number[]) {
  const got: Notice[] = []
  const receiver = { got, url: '', close: () => new Promise((resolve) => server.close(resolve)) }
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const status = request.url === '/' ? (statuses[got.length] ?? 204) : 200
      got.push({ method: request.method ?? '', headers: request.headers as Record<string, string>, body })
      response.writeHead(status, { location: '/elsewhere' }).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return receiver
}

describe.each(RULE_STACKS)('notifications of decisions to a notifyUrl, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  const { room } = play

  test('a notifyUrl gets each state of a call in order, signed with notifySecret, retried until accepted, and without the input', async () => {
    const receiver = await openReceiver(503)
    const approval = { quorum: 1, expiresInSeconds: 600, escalateAfterSeconds: 500, escalateToIds: ['@eve'] }
    const { alice, agent, space, runId } = await room([refundTool(play.service, approval)], [{ text: 'Hm.' }])
    await play.parley.runWhen(runId!)
    const updated = await play.stage.ask(
      play.stage.admin,
      `mutation { updateAgent(input: { id: "${agent.id}", notifyUrl: "${receiver.url}" }) { ... on UpdateAgentPayload { notifySecret agent { internals { notifyUrl } } } } }`,
    )
    expect(updated).toMatchObject({
      notifySecret: expect.stringMatching(/^whsec_/),
      agent: { internals: { notifyUrl: receiver.url } },
    })
    play.parley.models.script(steps([refund(3)], [{ text: 'Done.' }]))
    const sent = await play.stage.say(alice, space, 'Again')
    const call = await play.deciders.asked(alice)
    await play.deciders.claim(alice, call.id)
    await timeIsUp(play.parley, call.id, 'escalatesAt')
    await until('the call is escalated', async () => (await play.deciders.callFor(alice, call.id)).approval.escalatedAt)
    await play.deciders.decide(alice, call.id, true, { reason: 'a secret reason' })
    await play.parley.runWhen(sent.runs[0].id)
    await until('four notifications are accepted', () => receiver.got.length === 5)
    const [refused, ...taken] = receiver.got
    expect(refused!.headers['webhook-id']).toBe(taken[0]!.headers['webhook-id'])
    const told = taken.map(({ headers, body }) => new Webhook(updated.notifySecret).verify(body, headers)) as Read[]
    expect(told.map(({ type }) => type)).toEqual(
      ['waiting', 'claimed', 'escalated', 'decided'].map((what) => `tool_call.${what}`),
    )
    expect(told.map(({ data }) => data.state)).toEqual(['PENDING', 'PENDING', 'PENDING', 'APPROVED'])
    const { data, timestamp } = told[0]
    expect(data).toEqual({
      toolCallId: call.id,
      toolName: 'refund',
      agentId: agent.id,
      runId: sent.runs[0].id,
      spaceId: space.id,
      state: 'PENDING',
      expiresAt: call.expiresAt,
      url: `${play.parley.server.url}/spaces/${space.id}`,
    })
    expect(Math.abs(Date.parse(timestamp) - Date.now())).toBeLessThan(60_000)
    expect(receiver.got.map(({ body }) => body).join()).not.toMatch(/amount|secret reason/)
    await receiver.close()
  })

  test('a redirect does not count as accepted: the notification is retried; a stopped run sends decided, CANCELED', async () => {
    const receiver = await openReceiver(302)
    const { alice, runId } = await room([refundTool(play.service, {})], [refund(3)], { notifyUrl: receiver.url })
    const call = await play.deciders.asked(alice)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    await play.stage.ask(alice.client, `mutation { stopRun(input: { runId: "${runId}" }) { __typename } }`)
    await until('the end is sent', () => receiver.got.some(({ body }) => body.includes('decided')))
    const [first, again, decided] = receiver.got
    expect(receiver.got.map(({ method }) => method)).toEqual(['POST', 'POST', 'POST'])
    expect(again!.headers['webhook-id']).toBe(first!.headers['webhook-id'])
    expect([first, again].map((notice) => JSON.parse(notice!.body).type)).toEqual(
      Array.from({ length: 2 }, () => 'tool_call.waiting'),
    )
    expect(JSON.parse(decided!.body)).toMatchObject({
      type: 'tool_call.decided',
      data: { toolCallId: call.id, runId, state: 'CANCELED' },
    })
    await receiver.close()
  })

  test('an approved call that waits for its result is sent as waiting again', async () => {
    const receiver = await openReceiver()
    const ask = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE', approval: {} }
    const { alice, runId } = await room([ask], [{ toolCall: 'ask', input: {} }], { notifyUrl: receiver.url })
    const call = await play.deciders.asked(alice)
    await play.deciders.decide(alice, call.id, true)
    await until('three notifications are sent', () => receiver.got.length === 3)
    const told = receiver.got.map(({ body }) => JSON.parse(body)).map(({ type, data }) => `${type} ${data.state}`)
    expect(told).toEqual(['tool_call.waiting PENDING', 'tool_call.decided APPROVED', 'tool_call.waiting APPROVED'])
    await play.deciders.submit(alice, call.id, true)
    await play.parley.runWhen(runId!)
    await receiver.close()
  })
})

describe.each(RULE_STACKS)('a private address as notifyUrl, on the %s stack', (stack) => {
  const play = playDecisions(stack, { PARLEY_ALLOW_PRIVATE_TOOLS: 'false' })

  test('receives nothing, and is retried', async () => {
    const receiver = await openReceiver()
    const { alice } = await play.room([refundTool(play.service, {})], [refund(3)], { notifyUrl: receiver.url })
    await play.deciders.asked(alice)
    const { prisma } = play.parley.app.platform.db
    await until(
      'the notification was attempted',
      async () =>
        (
          await prisma.$queryRaw<unknown[]>`
          SELECT 1 FROM pgboss.job WHERE name = 'send-notice' AND retry_count > 0`
        ).length > 0,
    )
    expect(receiver.got).toEqual([])
    await receiver.close()
  })
})

describe('with PARLEY_PUBLIC_URL and a path prefix', () => {
  const PUBLIC_URL = 'https://intranet.example/tools/parley'
  const play = playDecisions('embedded', { PARLEY_PUBLIC_URL: PUBLIC_URL })

  test('the link of a notification points there', async () => {
    const receiver = await openReceiver()
    const { alice, space } = await play.room([refundTool(play.service, {})], [refund(3)], { notifyUrl: receiver.url })
    await play.deciders.asked(alice)
    await until('a notification is sent', () => receiver.got.length > 0)
    expect(JSON.parse(receiver.got[0]?.body ?? '').data.url).toBe(`${PUBLIC_URL}/spaces/${space.id}`)
    await receiver.close()
  })
})
