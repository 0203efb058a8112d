import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer, ServiceViewer } from '../../src/access/viewer.ts'
import { startServer } from '../../src/server/server.ts'
import type { AgUiEvent as Read } from '../support/ag-ui.ts'
import { RULE_STACKS } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

describe.each(RULE_STACKS)('the Open Responses endpoint on the %s stack', (stack) => {
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

  const serviceFor = (agentId: string): ServiceViewer => ({
    scope: 'SERVICE',
    id: '',
    name: 'CI',
    agentIds: [agentId],
    tokenId: null,
    expiresAt: null,
  })
  const say = (text: string) => [{ toolCall: 'send_message', input: { text } }]
  const ask = (path: string, body: object | null = null, { by = token as string | null, headers = {} } = {}) =>
    fetch(`${parley.origin}/v1${path}`, {
      method: body === null ? 'GET' : 'POST',
      headers: {
        ...(by === null ? {} : { authorization: `Bearer ${by}` }),
        'content-type': 'application/json',
        ...headers,
      },
      ...(body === null ? {} : { body: JSON.stringify(body) }),
    })
  const answer = async (path: string, body: object | null = null, how = {}): Promise<Read> => {
    const response = await ask(path, body, how)
    const read = await response.json()
    expect({ status: response.status, read }).toMatchObject({ status: 200 })
    return read
  }
  const textOf = ({ output }: Read): string => output.map(({ content }: Read) => content[0].text).join('\n')
  /** Returns the events of a stream, without the first line of each. */
  async function streamed(path: string, body: object | null = null): Promise<Read[]> {
    const response = await ask(path, body)
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    const blocks = (await response.text()).split('\n\n').filter((block) => block.includes('data: '))
    expect(blocks.pop()).toBe('data: [DONE]')
    return blocks.map((block) => {
      const [first = '', second = ''] = block.split('\n')
      const event = JSON.parse(second.slice('data: '.length))
      expect(first).toBe(`event: ${event.type}`)
      return event
    })
  }

  test('a chain of responses is one space, and each response returns its whole state', async () => {
    const bot = await parley.agent('Bot')
    parley.models.script(steps(say('An answer.')))
    const first = await answer('/responses', { model: bot.id, input: 'First', metadata: { a: 'b' } })
    expect(Object.keys(first)).toHaveLength(31)
    expect(first).toMatchObject({
      object: 'response',
      status: 'completed',
      model: bot.id,
      previous_response_id: null,
      error: null,
      metadata: { a: 'b' },
      usage: { total_tokens: expect.any(Number) },
      completed_at: expect.any(Number),
      output: [
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'An answer.', annotations: [] }] },
      ],
    })
    const second = await answer('/responses', {
      input: [{ role: 'user', content: 'Second' }],
      previous_response_id: first.id,
    })
    expect(second).toMatchObject({ status: 'completed', previous_response_id: first.id })
    expect(await answer(`/responses/${first.id}`)).toMatchObject({ status: 'completed', output: first.output })
    const rows = await parley.app.platform.db.prisma.membership.findMany({ where: { entityId: bot.id } })
    expect(rows).toHaveLength(1)
    const texts = (await parley.messages(rows[0]!.spaceId)).map(({ parts }) => (parts as Read)[0].text)
    expect(texts).toEqual(['First', 'An answer.', 'Second', 'An answer.'])
  })

  test('a stream resumes after any of its sequence numbers, with the same text', async () => {
    const bot = await parley.agent('Bot')
    parley.models.script(steps(say('One, two and three.'), say('And four.')))
    const all = await streamed('/responses', { model: bot.id, input: 'Count', stream: true })
    expect(all.map(({ type }) => type)).toEqual(expect.arrayContaining(['response.created', 'response.completed']))
    const { id } = all[0].response
    const textsIn = (events: readonly Read[]) => {
      const texts: string[] = []
      for (const { type, output_index, delta } of events)
        if (type === 'response.output_text.delta') texts[output_index] = (texts[output_index] ?? '') + delta
      return texts
    }
    for (const [index, { sequence_number }] of all.entries()) {
      const later =
        index === all.length - 1 ? [] : await streamed(`/responses/${id}?stream=true&starting_after=${sequence_number}`)
      const numbers = [...all.slice(0, index + 1), ...later].map((event) => event.sequence_number)
      expect(numbers).toEqual(numbers.toSorted((one, other) => one - other))
      expect(new Set(numbers).size).toBe(numbers.length)
      const [before, after] = [textsIn(all.slice(0, index + 1)), textsIn(later)]
      expect([0, 1].map((item) => (before[item] ?? '') + (after[item] ?? ''))).toEqual([
        'One, two and three.',
        'And four.',
      ])
    }
  })

  test('a background response returns at once, continues without its client, and can be canceled', async () => {
    const bot = await parley.agent('Bot')
    const { promise: goOn, resolve } = Promise.withResolvers<void>()
    parley.models.script(async ({ step }) => {
      if (step === 0) await goOn
      return step === 0 ? say('Later.') : [{ text: 'Done.' }]
    })
    const begun = await answer('/responses', { model: bot.id, input: 'Work', background: true })
    expect(begun).toMatchObject({ status: 'in_progress', background: true, output: [], usage: null })
    resolve()
    const done = await until('it is done', async () => {
      const now = await answer(`/responses/${begun.id}`)
      return now.status === 'completed' && now
    })
    expect(textOf(done)).toBe('Later.')
    parley.models.script(() => [{ hang: true }])
    const hanging = await answer('/responses', { model: bot.id, input: 'Hang', background: true })
    await until('the agent works', () =>
      parley.models.requests.some(({ messages }) => JSON.stringify(messages).includes('Hang')),
    )
    expect(await answer(`/responses/${hanging.id}/cancel`, {})).toMatchObject({ status: 'cancelled' })
    expect(await answer(`/responses/${hanging.id}/cancel`, {})).toMatchObject({ status: 'cancelled' })
  })

  test('a pending decision is described in a text with a link to it', async () => {
    const bot = await parley.agent('Bot', {
      tools: [
        {
          name: 'refund',
          description: 'Refunds.',
          inputSchema: { type: 'object' },
          execution: 'INTERNAL',
          visible: true,
          approval: { quorum: 1, approverIds: [ana.id] },
        },
      ],
    } as object)
    parley.models.script(steps([{ toolCall: 'refund', input: {} }], say('Refunded.')))
    const events = await streamed('/responses', { model: bot.id, input: 'Refund', stream: true })
    const { response } = events.at(-1)
    expect(response.status).toBe('completed')
    const [space] = await parley.app.platform.db.prisma.membership.findMany({ where: { entityId: bot.id } })
    expect(textOf(response)).toMatch(
      new RegExp(`^Ana must decide whether Bot may call refund\\. ${parley.origin}/spaces/${space!.spaceId}#msg_`),
    )
    const call = await parley.app.platform.db.prisma.toolCall.findFirstOrThrow({
      where: { agentId: bot.id, toolName: 'refund' },
    })
    await parley.app.domain.control.decideToolCall(ana, { toolCallId: call.id, approve: true })
    const after = events.at(-1).sequence_number
    const later = await streamed(`/responses/${response.id}?stream=true&starting_after=${after}`)
    expect(later.at(-1)).toMatchObject({ type: 'response.completed' })
    expect(textOf(later.at(-1).response)).toBe('Refunded.')
  })

  test('a stateless client continues its conversation, and a repeated request posts nothing', async () => {
    const bot = await parley.agent('Bot')
    parley.models.script(steps(say('Hello.')))
    const user = (content: string) => ({ role: 'user', content })
    const complete = (messages: object[], headers = {}) =>
      answer('/chat/completions', { model: bot.id, messages }, { headers })
    const [one, other] = [await complete([user('Hi')]), await complete([user('Hi')])]
    expect(one.choices).toMatchObject([{ message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }])
    expect(one.id).not.toBe(other.id)
    const history = [{ role: 'system', content: 'ignored' }, user('Hi'), one.choices[0].message, user('More')]
    const [more, again] = [await complete(history), await complete(history)]
    expect(again.id).toBe(more.id)
    const spaces = await parley.app.platform.db.prisma.membership.findMany({ where: { entityId: bot.id } })
    expect(spaces).toHaveLength(2)
    const counts = await Promise.all(spaces.map(async ({ spaceId }) => (await parley.messages(spaceId)).length))
    expect(counts.toSorted()).toEqual([2, 4])
    const headers = { 'idempotency-key': 'once' }
    const [first, repeated] = [await complete([user('Keyed')], headers), await complete([user('Keyed')], headers)]
    expect(repeated.id).toBe(first.id)
  })

  test('a history that may belong to several conversations, or to conversations with other people, begins a new one', async () => {
    const ben = await parley.human('Ben')
    const bot = await parley.agent('Bot')
    parley.models.script(steps(say('Hello.')))
    const spaceAfter = async (answered: string | null, next: string) => {
      const history = answered === null ? [] : [['user', 'Hi'] as const, ['assistant', answered] as const]
      const messages = [...history, ['user', next] as const].map(([role, content]) => ({ role, content }))
      const { id } = await answer('/chat/completions', { model: bot.id, messages })
      const where = { id: id.replace('chatcmpl-', 'msg_') }
      return (await parley.app.platform.db.prisma.message.findUniqueOrThrow({ where })).spaceId
    }
    const both = [await spaceAfter(null, 'Hi'), await spaceAfter(null, 'Hi')]
    expect(both).not.toContain(await spaceAfter('', 'After nothing'))
    expect(both).not.toContain(await spaceAfter('Hel', 'After a part'))
    expect(both).toContain(await spaceAfter('Hello.', 'After all of it'))
    // One of the conversations remains.
    const left = await spaceAfter('Hel', 'After a part of the other')
    expect(both).toContain(left)
    const shared = await spaceAfter(null, 'Hi')
    await parley.app.domain.members.add(ana, { spaceId: shared, entityId: ben.id })
    expect(await spaceAfter('Hello.', 'Not for Ben')).not.toBe(shared)
  })

  test('the models are the agents that the token may wake', async () => {
    const [open, closed, shared] = [
      await parley.agent('Open'),
      await parley.agent('Closed', { addableBy: 'ADMINS' } as object),
      await parley.agent('Shared', { addableBy: 'SHARES_SPACE' } as object),
    ]
    const idsFor = async (by: string) => (await answer('/models', null, { by })).data.map(({ id }: Read) => id)
    const before = await idsFor(token)
    expect(before).toContain(open.id)
    expect(before).not.toContain(closed.id)
    expect(before).not.toContain(shared.id)
    await parley.app.domain.spaces.create(parley.admin, {
      name: 'Shared',
      routing: 'BROADCAST',
      memberIds: [ana.id, shared.id],
    })
    expect(await idsFor(token)).toContain(shared.id)
    const service = serviceFor(closed.id)
    expect(await idsFor(await parley.tokenOf(service))).toEqual([closed.id])
    expect(await answer(`/models/${open.id}`)).toMatchObject({ id: open.id, object: 'model', owned_by: 'parley' })
  })

  test('failures use OpenAI’s error format, and nobody may do more than over GraphQL', async () => {
    const eve = await parley.human('Eve')
    const bot = await parley.agent('Bot')
    parley.models.script(steps(say('Private.')))
    const mine = await answer('/responses', { model: bot.id, input: 'Mine' })
    const failure = async (path: string, body: object | null, how = {}) => {
      const response = await ask(path, body, how)
      const { error } = await response.json()
      expect(error).toMatchObject({ message: expect.any(String), type: expect.any(String), code: expect.any(String) })
      return { status: response.status, ...error }
    }
    const asEve = { by: await parley.tokenOf(eve) }
    expect(await failure(`/responses/${mine.id}`, null, asEve)).toMatchObject({ status: 404 })
    expect(await failure(`/responses/${mine.id}/cancel`, {}, asEve)).toMatchObject({ status: 404 })
    expect(
      await failure('/responses', { model: bot.id, input: 'x', previous_response_id: mine.id }, asEve),
    ).toMatchObject({ status: 404 })
    expect(await failure('/responses/resp_nonsense', null)).toMatchObject({ status: 404 })
    expect(await failure('/models/nonsense', null)).toMatchObject({ status: 404 })
    expect(await failure('/models/%', null)).toMatchObject({ status: 404 })
    expect(await failure('/models/%', null, { by: null })).toMatchObject({ status: 401 })
    expect(await failure('/embeddings', {})).toMatchObject({ status: 404 })
    expect(await failure('/models', null, { by: null })).toMatchObject({ status: 401, type: 'authentication_error' })
    expect(await failure('/models', {})).toMatchObject({ status: 405 })
    const service = serviceFor(bot.id)
    for (const by of [await parley.tokenOf(service), await parley.tokenOf(parley.admin)])
      expect(await failure('/responses', { model: bot.id, input: 'x' }, { by })).toMatchObject({ status: 403 })
    for (const [body, param] of [
      [{ model: 'gpt-5', input: 'x' }, 'model'],
      [{ input: 'x' }, 'model'],
      [{ model: bot.id }, 'input'],
      [{ model: bot.id, input: [] }, 'input'],
      [{ model: bot.id, input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }, 'input.0'],
      [{ model: bot.id, input: 'x', stream: 'yes' }, 'stream'],
      [{ model: bot.id, input: 'x', metadata: { a: 1 } }, 'metadata'],
    ] as const)
      expect(await failure('/responses', body)).toMatchObject({ status: 400, type: 'invalid_request_error', param })
    expect(await failure('/responses', { model: bot.id, input: 'x'.repeat(32_001) })).toMatchObject({ status: 400 })
    expect(await failure('/responses', [], {})).toMatchObject({ status: 400 })
    parley.models.script(() => [{ error: 'no', status: 400 }])
    const failed = await answer('/responses', { model: bot.id, input: 'Fail' })
    expect(failed).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: expect.stringContaining('Bot') },
    })
    const stream = await streamed('/responses', { model: bot.id, input: 'Fail', stream: true })
    expect(stream.at(-1)).toMatchObject({ type: 'response.failed', sequence_number: expect.any(Number) })
    expect(
      await failure('/chat/completions', { model: bot.id, messages: [{ role: 'user', content: 'Fail' }] }),
      // Clients repeat requests after a 5xx response.
    ).toMatchObject({ status: 422 })
    const names = await parley.app.platform.db.prisma.space.findMany({ select: { name: true } })
    expect(names.filter(({ name }) => name.startsWith('xxx'))).toEqual([])
  })

  test('a client that disconnects stops nothing', async () => {
    const bot = await parley.agent('Bot')
    const { promise: goOn, resolve } = Promise.withResolvers<void>()
    parley.models.script(async ({ step }) => {
      if (step === 0) await goOn
      return step === 0 ? say('Still here.') : [{ text: 'Done.' }]
    })
    const gone = new AbortController()
    const response = await fetch(`${parley.origin}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: bot.id, input: 'Wait', stream: true }),
      signal: gone.signal,
    })
    const reader = response.body!.getReader()
    const { value } = await reader.read()
    const id = /resp_[0-9a-f]{32}/.exec(new TextDecoder().decode(value))![0]
    gone.abort()
    resolve()
    await until('it is done', async () => textOf(await answer(`/responses/${id}`)) === 'Still here.')
  })
})

describe('the limits of the Open Responses endpoint', () => {
  test('requests beyond the limit of waiting ones post nothing, waiting ones count, and refused messages leave no space', async () => {
    const settings = {
      PARLEY_MAX_SOCKETS_PER_VIEWER: '1',
      PARLEY_RATE_MESSAGES: '2',
      PARLEY_DIRECTORY: 'everyone',
    }
    const parley = await startTestServer({ settings, isFresh: true })
    const leaving = await startServer({ app: parley.app, config: { ...parley.app.platform.config, port: 0 } })
    try {
      const token = await parley.tokenOf(await parley.human('Ana'))
      const bot = await parley.agent('Bot')
      parley.models.script(() => [{ hang: true }])
      const ask = (body: object, origin = parley.origin) =>
        fetch(`${origin}/v1/responses`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: JSON.stringify({ model: bot.id, ...body }),
        })
      const spaces = () => parley.app.platform.db.prisma.space.count({ where: { deletedAt: null } })
      const waiting = ask({ input: 'Wait' }, `http://127.0.0.1:${leaving.port}`)
      await until('the agent works', () => parley.models.requests.length > 0)
      const [, before] = [await ask({ input: 'Other', background: true }), await spaces()]
      const refused = await ask({ input: 'Too much', background: true })
      expect(refused.status).toBe(429)
      expect(await spaces()).toBe(before)
      const second = await ask({ input: 'No place', stream: true }, `http://127.0.0.1:${leaving.port}`)
      expect(second.status).toBe(429)
      expect((await second.json()).error.message).toContain('streams')
      await leaving.close({ drain: false })
      const ended = await waiting
      expect(ended.status).toBe(422)
      expect((await ended.json()).error.code).toBe('unavailable')
    } finally {
      await leaving.close({ drain: false }).catch(() => {})
      await parley.close()
    }
  })
})
