import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { type Caller, DoorError } from '../../src/doors/exchange.ts'
import { patient } from '../../src/doors/patient.ts'
import {
  type AgUiEvent,
  type AgUiInput,
  allEventsOf,
  askAgUi,
  eventsOf,
  textsOf,
  userMessage,
} from '../support/ag-ui.ts'
import { RULE_STACKS } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const DECIDE = `mutation ($input: DecideToolCallInput!) {
  decideToolCall(input: $input) { __typename ... on Error { message } }
}`
const SPACES = `{ spaces { edges { node { id name members { name } messages { edges { node { text } } } } } } }`

describe.each(RULE_STACKS)('the AG-UI endpoint on the %s stack', (stack) => {
  let parley: TestServer
  let ana: HumanViewer
  let token: string
  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { PARLEY_DELTA_MS: '0', PARLEY_DIRECTORY: 'everyone' } })
    ana = await parley.human('Ana')
    token = await parley.tokenOf(ana)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const say = (text: string, more: object = {}) => [{ toolCall: 'send_message', input: { text }, ...more }]
  const agents = (id: string) => `${parley.origin}/ag-ui/agents/${id}`
  const spaces = (id: string) => `${parley.origin}/ag-ui/spaces/${id}`
  const events = async (url: string, input: AgUiInput | null, by = token): Promise<AgUiEvent[]> => {
    const response = await askAgUi(url, by, input)
    expect(response.status).toBe(200)
    return allEventsOf(response)
  }
  const cursorOf = (found: readonly AgUiEvent[]): string => found.at(-1).rawEvent.cursor
  const isOfType = (type: string) => (event: AgUiEvent) => event.type === type
  const interruptsOf = (found: readonly AgUiEvent[]) => {
    expect(found.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'interrupt' } })
    return found.at(-1).outcome.interrupts
  }

  test('a message to an agent gets a stream of events as the response, in a space of the human and the agent', async () => {
    const bot = await parley.agent('Bot')
    parley.models.script(steps(say('Hello Ana, how are you?')))
    const found = await events(agents(bot.id), { threadId: 't1', runId: 'r1', messages: [userMessage('Hi Bot')] })
    expect(found[0]).toMatchObject({ type: 'RUN_STARTED', threadId: 't1', runId: 'r1' })
    expect(found.find(isOfType('TEXT_MESSAGE_START'))).toMatchObject({ role: 'assistant', name: 'Bot' })
    expect(Object.values(textsOf(found))).toEqual(['Hello Ana, how are you?'])
    expect(found.at(-1)).toMatchObject({
      type: 'RUN_FINISHED',
      threadId: 't1',
      runId: 'r1',
      outcome: { type: 'success' },
    })
    for (const { rawEvent } of found) expect(rawEvent.cursor).toEqual(expect.any(String))
    const client = await parley.clientOf(ana)
    const { data } = await client.ask<AgUiEvent>(SPACES)
    expect(data.spaces.edges[0].node).toMatchObject({
      name: 'Hi Bot',
      members: [{ name: 'Ana' }, { name: 'Bot' }],
      messages: { edges: [{ node: { text: 'Hi Bot' } }, { node: { text: 'Hello Ana, how are you?' } }] },
    })
    await events(agents(bot.id), { threadId: 't1', messages: [] })
    // Continuing a conversation creates nothing, so nothing is audited.
    await events(agents(bot.id), { threadId: 't1', messages: [userMessage('Hi again')] })
    const audited = await parley.app.platform.db.prisma.auditEntry.findMany({
      where: { actorId: ana.id, action: 'createSpace' },
      select: { targetId: true },
    })
    expect(audited).toEqual([{ targetId: expect.stringMatching(/^spc_/) }])
  })

  test('a client that sends its whole history again posts nothing twice, and gets the existing messages', async () => {
    const bot = await parley.agent('Bot')
    parley.models.script(steps(say('One answer.')))
    const url = agents(bot.id)
    const messages = [userMessage('Once')]
    const first = await events(url, { threadId: 'again', messages })
    const again = await events(url, { threadId: 'again', messages })
    const shown = again.find(isOfType('MESSAGES_SNAPSHOT')).messages
    expect(shown).toMatchObject([
      { id: messages[0]!.id, role: 'user', name: 'Ana', content: 'Once' },
      { role: 'assistant', name: 'Bot', content: 'One answer.' },
    ])
    expect(again.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
    const [id] = Object.keys(textsOf(first))
    const answer = { id, role: 'assistant', content: 'One answer.' }
    const next = await events(url, { threadId: 'again', messages: [...messages, answer, userMessage('Twice')] })
    expect(Object.values(textsOf(next))).toEqual(['One answer.'])
    const shownAfter = (await events(url, { threadId: 'again' })).find(isOfType('MESSAGES_SNAPSHOT')).messages
    expect(shownAfter.map((message: AgUiEvent) => message.content)).toEqual([
      'Once',
      'One answer.',
      'Twice',
      'One answer.',
    ])
    const changed = await askAgUi(url, token, { threadId: 'again', messages: [{ ...messages[0], content: 'Other' }] })
    expect(changed.status).toBe(409)
    expect(await changed.json()).toMatchObject({ type: 'RUN_ERROR', code: 'CONFLICT' })
  })

  test('a thread has a single space, even if many requests and processes begin it at the same time', async () => {
    // An embedded database can be used by one process only.
    const other = stack === 'embedded' ? null : await startTestServer({ beside: parley, worker: false })
    try {
      const bot = await parley.agent('Bot')
      parley.models.script(steps(say('Yes.')))
      const begin = async (index: number) => {
        const { origin } = index % 2 === 0 ? parley : (other ?? parley)
        const input = { threadId: 'race', messages: [userMessage(`Message ${index}`)] }
        const response = await askAgUi(`${origin}/ag-ui/agents/${bot.id}`, token, input)
        expect(response.status).toBe(200)
        await allEventsOf(response)
      }
      await Promise.all(Array.from({ length: 8 }, (_, index) => begin(index)))
      const rows = await parley.app.platform.db.prisma.membership.findMany({ where: { entityId: bot.id } })
      expect(rows).toHaveLength(1)
    } finally {
      await other?.close()
    }
  })

  test('a client that rejoins in the middle of a message gets the rest, by POST and by GET', async () => {
    const bot = await parley.agent('Bot')
    const { promise: goOn, resolve } = Promise.withResolvers<void>()
    parley.models.script(
      steps(
        say('', {
          input: { text: 'First half, second half.' },
          chunks: ['{"text":"First half', goOn, ', second half."}'],
        }),
      ),
    )
    const gone = new AbortController()
    const messages = [userMessage('Write')]
    const begun: AgUiEvent[] = []
    const response = await askAgUi(agents(bot.id), token, { threadId: 'middle', messages }, gone.signal)
    for await (const event of eventsOf(response)) {
      begun.push(event)
      if (event.type === 'TEXT_MESSAGE_CONTENT') break
    }
    gone.abort()
    const after = cursorOf(begun)
    const [[id, text] = []] = Object.entries(textsOf(begun))
    expect('First half, second half.'.startsWith(text!)).toBe(true)
    const known = [...messages, { id, role: 'assistant', content: text }]
    const byPost = askAgUi(agents(bot.id), token, {
      threadId: 'middle',
      messages: known,
      forwardedProps: { parley: { after } },
    })
    const byGet = askAgUi(`${agents(bot.id)}?threadId=middle&after=${after}`, token, null)
    const rejoined = await Promise.all([byPost, byGet])
    resolve()
    for (const one of rejoined) {
      const rest = await allEventsOf(one)
      expect(rest[0]).toMatchObject({ type: 'RUN_STARTED', threadId: 'middle' })
      expect(textsOf(rest, { [id!]: text! })).toEqual({ [id!]: 'First half, second half.' })
      expect(rest.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
    }
  })

  test('messages of other people and agents keep their names', async () => {
    const ben = await parley.human('Ben')
    const bot = await parley.agent('Bot')
    const space = await parley.space(ana, [ben.id, bot.id])
    const { promise: goOn, resolve } = Promise.withResolvers<void>()
    parley.models.script(async ({ step }) => {
      if (step === 0) await goOn
      return step === 0 ? say('Hello both.') : [{ text: 'Done.' }]
    })
    const response = await askAgUi(spaces(space.id), token, { messages: [userMessage('Hello?')] })
    const found: AgUiEvent[] = []
    for await (const event of eventsOf(response)) {
      found.push(event)
      if (event.type === 'RUN_STARTED') {
        await parley.send(ben, space.id, 'I am here too.')
        resolve()
      }
    }
    const starts = found.filter(isOfType('TEXT_MESSAGE_START'))
    expect(starts).toMatchObject(
      expect.arrayContaining([
        expect.objectContaining({
          role: 'user',
          name: 'Ben',
          metadata: { parley: expect.objectContaining({ sender: { id: ben.id, name: 'Ben', kind: 'HUMAN' } }) },
        }),
        expect.objectContaining({ role: 'assistant', name: 'Bot' }),
      ]),
    )
    expect(Object.values(textsOf(found))).toEqual(expect.arrayContaining(['I am here too.', 'Hello both.']))
    // Ana's own message belongs to the client.
    expect(Object.values(textsOf(found))).not.toContain('Hello?')
  })

  test('calls that wait for people end the run as interrupts; each answer is accepted, and the other calls keep waiting', async () => {
    const ben = await parley.human('Ben')
    const refund = {
      name: 'refund',
      description: 'Refunds.',
      inputSchema: { type: 'object' },
      execution: 'INTERNAL' as const,
      visible: true,
    }
    const bot = await parley.agent('Bot', {
      tools: [
        { ...refund, approval: { quorum: 2, approverIds: [ana.id, ben.id] } },
        { name: 'form', description: 'A form.', inputSchema: { type: 'object' }, execution: 'SPACE', visible: true },
      ],
    } as object)
    const space = await parley.space(ana, [ben.id, bot.id])
    parley.models.script(
      steps(
        [
          { toolCall: 'refund', input: { amount: 5 } },
          { toolCall: 'form', input: { ask: 'size' } },
        ],
        say('All done.'),
      ),
    )
    const url = spaces(space.id)
    const messages = [userMessage('Refund')]
    const first = await events(url, { messages })
    const interrupts = interruptsOf(first)
    expect(interrupts).toHaveLength(2)
    const byReason = (reason: string) => interrupts.find((one: AgUiEvent) => one.reason === reason)
    const [decision, form] = [byReason('approval_required'), byReason('tool_result_required')]
    expect(decision).toMatchObject({
      message: expect.stringContaining('Bot'),
      metadata: { parley: { mayAnswer: true } },
    })
    expect(
      first
        .filter(isOfType('TOOL_CALL_START'))
        .map(({ toolCallName }) => toolCallName)
        .toSorted(),
    ).toEqual(['form', 'refund'])

    const wrong = await askAgUi(url, token, {
      messages,
      resume: [{ interruptId: decision.id, status: 'resolved', payload: {} }],
    })
    expect(wrong.status).toBe(400)
    // An incomplete answer is sent twice. Late and repeated answers change nothing.
    const resume = [{ interruptId: form.id, status: 'resolved', payload: { size: 42 } }]
    for (let time = 0; time < 2; time++) {
      const left = interruptsOf(
        await events(url, { messages, resume, forwardedProps: { parley: { after: cursorOf(first) } } }),
      )
      expect(left).toMatchObject([{ id: decision.id }])
    }
    // Two approvals are needed, and Ana's is the first.
    const approval = [{ interruptId: decision.id, status: 'resolved', payload: { approve: true } }]
    expect(interruptsOf(await events(url, { messages, resume: approval }))).toMatchObject([
      { reason: 'approval_required' },
    ])
    const follower = askAgUi(`${url}?follow=true`, token, null)
    const client = await parley.clientOf(ben)
    const [toolCallId] = decision.id.split('.')
    const { data } = await client.ask<AgUiEvent>(DECIDE, { input: { toolCallId, approve: true } })
    expect(data.decideToolCall.__typename).toBe('DecideToolCallPayload')
    const last = await allEventsOf(await follower)
    expect(last.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
    const end = (await events(url, { messages: [] })).find(isOfType('MESSAGES_SNAPSHOT')).messages
    expect(end.filter(({ role }: AgUiEvent) => role === 'tool')).toHaveLength(2)
    expect(end.at(-1)).toMatchObject({ role: 'assistant', content: 'All done.' })
  })

  test('a question in a thread is answered in that thread', async () => {
    const bot = await parley.agent('Bot', { toolset: 'SPACE_TOOLS' })
    const space = await parley.space(ana, [bot.id])
    parley.models.script(({ step }) => {
      const input = { spaceId: space.id, text: 'Which size?', wait: { for: [{ type: 'human' }], timeout: 60 } }
      return step === 0 ? [{ toolCall: 'sendSpaceMessage', input }] : [{ text: 'Done.' }]
    })
    const { sending } = parley.app.domain
    const { message: root } = await sending.send(ana, { spaceId: space.id, text: 'About shoes', mentionedIds: [] })
    await until('the first question is asked', async () => (await parley.messages(space.id)).length === 2)
    const asked = interruptsOf(await events(spaces(space.id), null))
    expect(asked).toMatchObject([{ reason: 'reply_required' }])
    await events(spaces(space.id), {
      resume: [{ interruptId: asked[0].id, status: 'resolved', payload: { text: '42' } }],
    })
    await sending.send(ana, { spaceId: space.id, text: 'And in this thread?', replyToId: root.id })
    await until('the second question is asked', async () => (await parley.messages(space.id)).length === 5)
    const [interrupt] = interruptsOf(await events(spaces(space.id), null))
    const resume = [{ interruptId: interrupt.id, status: 'resolved', payload: { text: '43' } }]
    const last = await events(spaces(space.id), { resume })
    expect(last.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
    // A repeated answer is posted once.
    await events(spaces(space.id), { resume })
    const rows = await parley.app.platform.db.prisma.message.findMany({
      where: { spaceId: space.id },
      orderBy: { seq: 'asc' },
      select: { threadRootId: true, parts: true },
    })
    const placed = rows.map(({ threadRootId, parts }) => [(parts as { text: string }[])[0]?.text, threadRootId])
    expect(placed).toEqual([
      ['About shoes', null],
      ['Which size?', null],
      ['42', null],
      ['And in this thread?', root.id],
      ['Which size?', root.id],
      ['43', root.id],
    ])
  })

  test('a persistent agent responds through the endpoint, and the AG-UI run ends with its cycle', async () => {
    const mia = await parley.agent('Mia', { mind: 'PERSISTENT', toolset: 'SPACE_TOOLS' })
    parley.models.script(({ step, messages }) => {
      const [, spaceId] = /\(id: (spc_[0-9a-f]+)\)/.exec(messages.map(({ text }) => text).join('\n')) ?? []
      return step === 0
        ? [{ toolCall: 'sendSpaceMessage', input: { spaceId, text: 'I remember.' } }]
        : [{ text: 'Done.' }]
    })
    const response = await askAgUi(`${parley.origin}/ag-ui/agents/${mia.id}`, token, {
      messages: [userMessage('Well?')],
    })
    const found = await allEventsOf(response)
    expect(Object.values(textsOf(found))).toEqual(['I remember.'])
    expect(found.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
  })

  test('a client that disconnects stops no run', async () => {
    const bot = await parley.agent('Bot')
    const { promise: goOn, resolve } = Promise.withResolvers<void>()
    parley.models.script(async ({ step }) => {
      if (step === 0) await goOn
      return step === 0 ? say('Still here.') : [{ text: 'Done.' }]
    })
    const gone = new AbortController()
    const messages = [userMessage('Wait for it')]
    const response = await askAgUi(agents(bot.id), token, { threadId: 'gone', messages }, gone.signal)
    await eventsOf(response).next()
    gone.abort()
    resolve()
    const found = await events(agents(bot.id), { threadId: 'gone', messages })
    const texts = { ...textsOf(found) }
    for (const { messages: shown = [] } of found)
      for (const { role, id, content } of shown) if (role === 'assistant') texts[id] = content + (texts[id] ?? '')
    expect(Object.values(texts)).toEqual(['Still here.'])
  })

  test('a failed run ends with an error, and a stopped run as cancelled', async () => {
    const bot = await parley.agent('Bot')
    parley.models.script(() => [{ error: 'no', status: 400 }])
    const failed = await events(agents(bot.id), { threadId: 'fails', messages: [userMessage('Fail')] })
    expect(failed.at(-1)).toMatchObject({
      type: 'RUN_ERROR',
      code: 'RUN_FAILED',
      message: expect.stringContaining('Bot'),
      rawEvent: { cursor: expect.any(String) },
    })
    const unbegun = await events(`${agents(bot.id)}?threadId=unbegun&after=${cursorOf(failed)}`, null)
    expect(unbegun.map(({ rawEvent }) => rawEvent.cursor)).toEqual(unbegun.map(() => cursorOf(failed)))
    parley.models.script(() => [{ hang: true }])
    const response = await askAgUi(agents(bot.id), token, { threadId: 'stops', messages: [userMessage('Hang')] })
    const hanging = allEventsOf(response)
    const run = await until('a run is RUNNING', () =>
      parley.app.platform.db.prisma.run.findFirst({ where: { agentId: bot.id, status: 'RUNNING' } }),
    )
    await parley.app.domain.control.stopRun(ana, { runId: run.id, cascade: true })
    expect((await hanging).at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'cancelled' } })
  })

  test('nobody may do more than over GraphQL', async () => {
    const eve = await parley.human('Eve')
    const bot = await parley.agent('Bot')
    const space = await parley.space(ana, [bot.id])
    const input = { messages: [userMessage('Let me in')] }
    const statusFor = async (url: string, by: string | null, sent: AgUiInput | null = input) => {
      const response = await askAgUi(url, by, sent)
      const body = await response.json()
      expect(body).toMatchObject({ type: 'RUN_ERROR', message: expect.any(String), code: expect.any(String) })
      return response.status
    }
    const ofEve = await parley.tokenOf(eve)
    expect(await statusFor(spaces(space.id), ofEve)).toBe(404)
    expect(await statusFor(spaces(space.id), ofEve, null)).toBe(404)
    expect(await statusFor(spaces('spc_nothing'), ofEve)).toBe(404)
    expect(await statusFor(agents(`agt_${'0'.repeat(32)}`), ofEve)).toBe(404)
    expect(await statusFor(`${parley.origin}/ag-ui/other/x`, ofEve)).toBe(404)
    expect(await statusFor(agents(bot.id), null)).toBe(401)
    expect(await statusFor(agents(bot.id), 'nonsense')).toBe(401)
    const service = await parley.tokenOf({
      scope: 'SERVICE',
      id: '',
      name: 'CI',
      agentIds: [bot.id],
      tokenId: null,
      expiresAt: null,
    })
    expect(await statusFor(agents(bot.id), service)).toBe(403)
    expect(await statusFor(agents(bot.id), await parley.tokenOf(parley.admin))).toBe(403)
    const closed = await parley.agent('Closed', { addableBy: 'ADMINS' } as object)
    expect(await statusFor(agents(closed.id), ofEve)).toBe(403)
    // A thread belongs to the human who began it.
    parley.models.script(steps(say('For Ana only.')))
    await events(agents(bot.id), { threadId: 'private', messages: [userMessage('Secret')] })
    const ofOther = await events(agents(bot.id), { threadId: 'private' }, ofEve)
    expect(ofOther.find(isOfType('MESSAGES_SNAPSHOT')).messages).toEqual([])
    // A call in a space that Eve may not see.
    const waiting = await askAgUi(agents(bot.id), ofEve, {
      resume: [{ interruptId: `tcl_${'1'.repeat(32)}`, status: 'resolved', payload: true }],
      ...input,
    })
    expect(waiting.status).toBe(404)
  })

  test('a member who is removed from the space loses the stream', async () => {
    const ben = await parley.human('Ben')
    const bot = await parley.agent('Bot')
    const space = await parley.space(ana, [ben.id, bot.id])
    parley.models.script(() => [{ hang: true }])
    const response = await askAgUi(spaces(space.id), await parley.tokenOf(ben), { messages: [userMessage('Hang')] })
    const found = allEventsOf(response)
    await until('the agent works', () => parley.models.requests.length > 0)
    await parley.app.domain.members.remove(ana, { spaceId: space.id, entityId: ben.id })
    expect((await found).at(-1)).toMatchObject({
      type: 'RUN_ERROR',
      code: 'FORBIDDEN',
      rawEvent: { cursor: expect.any(String) },
    })
  })

  test('the threads of erased humans and deleted agents are deleted', async () => {
    const eve = await parley.human('Eve')
    const [bot, other] = [await parley.agent('Bot'), await parley.agent('Other')]
    parley.models.script(steps(say('Yes.')))
    const begin = async (agentId: string, by: string) =>
      void (await events(agents(agentId), { threadId: 'kept', messages: [userMessage('Hi')] }, by))
    const ofEve = await parley.tokenOf(eve)
    for (const agent of [bot, other]) await begin(agent.id, ofEve)
    await begin(bot.id, token)
    const pairs = async () => {
      const rows = await parley.app.platform.db.prisma.conversation.findMany()
      return rows.map(({ key }) => key.split(' ').slice(0, 2).join(' '))
    }
    await parley.app.domain.deletion.deleteAgent(parley.admin, { id: other.id })
    const before = await pairs()
    expect(before).toEqual(expect.arrayContaining([`${eve.id} ${bot.id}`, `${ana.id} ${bot.id}`]))
    expect(before).not.toContain(`${eve.id} ${other.id}`)
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: eve.id, messages: false })
    const after = await pairs()
    expect(after).toContain(`${ana.id} ${bot.id}`)
    expect(after).not.toContain(`${eve.id} ${bot.id}`)
  })

  test('bad input is refused with a reason', async () => {
    const bot = await parley.agent('Bot')
    const url = agents(bot.id)
    const failure = async (body: unknown, headers: Record<string, string> = {}, method = 'POST') => {
      const response = await fetch(url, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
        ...(method === 'POST' ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
      })
      return { status: response.status, ...(await response.json()) }
    }
    const input = { threadId: 't', runId: 'r', messages: [userMessage('x')], tools: [], context: [], state: {} }
    expect(await failure('{')).toMatchObject({ status: 400, code: 'BAD_INPUT' })
    expect(await failure({})).toMatchObject({ status: 400, message: expect.stringContaining('RunAgentInput') })
    expect(await failure(input, { 'content-type': 'text/plain' })).toMatchObject({ status: 415 })
    expect(await failure({ ...input, protocolVersion: '7.0' })).toMatchObject({ status: 400 })
    expect(await failure({ ...input, threadId: 'x'.repeat(501) })).toMatchObject({ status: 400 })
    expect(await failure({ ...input, forwardedProps: { parley: { after: 'nonsense' } } })).toMatchObject({
      status: 400,
    })
    expect(await failure({ ...input, messages: [userMessage('')] })).toMatchObject({ status: 400 })
    expect(await failure({ ...input, messages: [userMessage('x'.repeat(32_001))] })).toMatchObject({ status: 400 })
    const image = { type: 'image', source: { type: 'url', value: 'https://example.com/x.png' } }
    expect(await failure({ ...input, messages: [{ ...userMessage(''), content: [image] }] })).toMatchObject({
      status: 400,
    })
    const many = Array.from({ length: 10_001 }, () => ({}))
    expect(await failure({ ...input, messages: many })).toMatchObject({
      status: 400,
      message: expect.stringContaining('too many'),
    })
    expect(await failure('x'.repeat(1024 * 1024 + 1))).toMatchObject({ status: 413 })
    expect(await failure(input, {}, 'PUT')).toMatchObject({ status: 405 })
    expect(parley.models.requests).toEqual([])
  })
})

describe('the limits of the AG-UI endpoint', () => {
  test('streams, messages and bytes have the same limits as over GraphQL', async () => {
    const settings = {
      PARLEY_MAX_SOCKETS_PER_VIEWER: '3',
      PARLEY_RATE_MESSAGES: '6',
      PARLEY_MAX_RESPONSE_BYTES: '65536',
    }
    const parley = await startTestServer({ settings, isFresh: true })
    try {
      const ana = await parley.human('Ana')
      const token = await parley.tokenOf(ana)
      const bot = await parley.agent('Bot')
      parley.models.script(() => [{ hang: true }])
      const space = await parley.space(ana, [bot.id])
      const url = `${parley.origin}/ag-ui/spaces/${space.id}`
      const gone = new AbortController()
      await askAgUi(url, token, { messages: [userMessage('Hang')] }, gone.signal)
      const others = await Promise.all(Array.from({ length: 2 }, () => askAgUi(url, token, null, gone.signal)))
      expect(others.map(({ status }) => status)).toEqual([200, 200])
      const refused = await askAgUi(url, token, null)
      expect(refused.status).toBe(429)
      expect(refused.headers.get('retry-after')).not.toBeNull()
      gone.abort()
      await until('the streams are gone', async () => {
        const again = new AbortController()
        const { status } = await askAgUi(url, token, null, again.signal)
        again.abort()
        return status === 200
      })
      const statuses: number[] = []
      for (let count = 0; count < 7; count++) {
        const one = new AbortController()
        statuses.push((await askAgUi(url, token, { messages: [userMessage(`${count}`)] }, one.signal)).status)
        one.abort()
      }
      expect(statuses.at(-1)).toBe(429)
      for (let count = 0; count < 10; count++)
        await parley.app.domain.sending.send(ana, { spaceId: space.id, text: '\u{1F389}'.repeat(5000) })
      const hydrating = new AbortController()
      for await (const event of eventsOf(await askAgUi(url, token, null, hydrating.signal))) {
        if (event.type !== 'MESSAGES_SNAPSHOT') continue
        expect(Buffer.byteLength(JSON.stringify(event))).toBeLessThanOrEqual(65_536)
        expect(event.messages.length).toBeGreaterThan(0)
        break
      }
      hydrating.abort()
    } finally {
      await parley.close()
    }
  })

  test('refused bodies count towards the rate, and edits share a snapshot', async () => {
    const parley = await startTestServer({
      settings: { PARLEY_RATE_REQUESTS: '300', PARLEY_DIRECTORY: 'everyone' },
      isFresh: true,
    })
    try {
      const [ana, ben, cem] = [await parley.human('Ana'), await parley.human('Ben'), await parley.human('Cem')]
      const [token, ofCem] = [await parley.tokenOf(ana), await parley.tokenOf(cem)]
      const space = await parley.space(ana, [ben.id, (await parley.agent('Bot')).id])
      parley.models.script(() => [{ hang: true }])
      const url = `${parley.origin}/ag-ui/spaces/${space.id}`
      const { message } = await parley.app.domain.sending.send(ben, { spaceId: space.id, text: 'First' })
      const gone = new AbortController()
      const stream = eventsOf(await askAgUi(url, token, { messages: [userMessage('Hang')] }, gone.signal))
      await stream.next()
      const statuses: number[] = []
      while (statuses.at(-1) !== 429 && statuses.length < 1000) {
        const response = await fetch(url, {
          method: 'POST',
          headers: { authorization: `Bearer ${ofCem}`, 'content-type': 'application/json' },
          body: '{',
        })
        statuses.push(response.status)
        await response.body?.cancel()
      }
      expect(statuses.at(-1)).toBe(429)
      for (let count = 0; count < 5; count++)
        await parley.app.domain.messageChanges.edit(ben, { messageId: message.id, text: `Edit ${count}` })
      await parley.send(ben, space.id, 'After the edits')
      const found: AgUiEvent[] = []
      for await (const event of stream) {
        found.push(event)
        if (JSON.stringify(event).includes('After the edits')) break
      }
      expect(found.filter(({ type }) => type === 'RUN_ERROR')).toEqual([])
      expect(found.filter(({ type }) => type === 'MESSAGES_SNAPSHOT').length).toBeLessThanOrEqual(2)
      expect(JSON.stringify(found)).toContain('Edit 4')
      gone.abort()
    } finally {
      await parley.close()
    }
  })
})

test('a query waits while its viewer’s rate is used up, and fails for any other reason', async () => {
  const failures = [
    new DoorError('RATE_LIMITED', 'Later.', { retryAfterMs: 1 }),
    new DoorError('NOT_FOUND', 'No such space.'),
  ]
  const onIdle = vi.fn()
  const ask = async () => {
    throw failures.shift()
  }
  const caller = patient({ signal: new AbortController().signal, ask } as unknown as Caller, onIdle)
  await expect(caller.ask('{ viewer { id } }', {})).rejects.toMatchObject({ code: 'NOT_FOUND' })
  expect(onIdle).toHaveBeenCalledOnce()
})
