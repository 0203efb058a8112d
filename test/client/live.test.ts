import { AbstractChat, type ChatState, type UIMessage } from 'ai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createChatTransport } from '../../client/chat-transport.ts'
import { type Connection, createConnection } from '../../client/connection.ts'
import { liveRun } from '../../client/live-run.ts'
import { type LiveSpace, liveSpace } from '../../client/live-space.ts'
import { liveViewer } from '../../client/live-viewer.ts'
import type { Viewer } from '../../src/access/viewer.ts'
import { when } from '../support/live-state.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const textsOf = ({
  messages,
}: {
  messages: LiveSpace['getState'] extends () => infer S ? S[keyof S & 'messages'] : never
}) =>
  messages.map(({ parts }) =>
    parts
      .map((part) => ('text' in part ? part.text : 'toolCall' in part ? `<${part.toolCall.toolName}>` : '<file>'))
      .join('|'),
  )

/** Streams a text, and pauses until a promise resolves. */
const speech = (...chunks: (string | Promise<unknown>)[]) => [
  { toolCall: 'send_message', chunks: ['{"text":"', ...chunks, '"}'] },
]

describe('the live client', () => {
  let parley: TestServer
  let sockets: WebSocket[]
  const stops: (() => void)[] = []

  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(async () => {
    for (const stop of stops) stop()
    await parley?.close()
  })
  beforeEach(() => {
    sockets = []
    parley.models.reset()
  })

  async function connect(viewer: Viewer): Promise<Connection> {
    class Watched extends WebSocket {
      constructor(url: string, protocols?: string | string[]) {
        super(url, protocols)
        sockets.push(this)
      }
    }
    const connection = createConnection({
      url: parley.origin,
      token: await parley.tokenOf(viewer),
      webSocketImpl: Watched,
    })
    stops.push(() => connection.close())
    return connection
  }
  const cut = () => {
    for (const socket of sockets.splice(0)) socket.close(4000, 'cut by the test')
  }

  test('a message that streams while the connection breaks twice is complete in the end, and its text never shrinks', async () => {
    const { human, agent, space } = await parley.room()
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const said = speech(
      'Frost ',
      'tonight. ',
      gates[0]?.promise as Promise<void>,
      'Cover the ',
      gates[1]?.promise as Promise<void>,
      'tomatoes.',
    )
    parley.models.script(forAgent(agent.name, steps(said, [{ text: 'ok' }])))
    const connection = await connect(human)
    const live = liveSpace(connection, { spaceId: space.id })
    const lengths: number[] = []
    stops.push(live.subscribe(() => lengths.push(textsOf(live.getState())[1]?.length ?? 0)))
    await when(live, ({ status }) => status === 'live')
    const { runIds } = await live.send({ text: 'What do I do?' })
    await when(live, (state) => textsOf(state)[1] === 'Frost tonight. ')
    cut()
    gates[0]?.resolve()
    await when(live, (state) => textsOf(state)[1] === 'Frost tonight. Cover the ')
    cut()
    gates[1]?.resolve()
    const state = await when(live, ({ messages }) => messages[1]?.status === 'COMPLETE')
    expect(textsOf(state)).toEqual(['What do I do?', 'Frost tonight. Cover the tomatoes.'])
    expect(state.messages[0]?.outcomes).toMatchObject([{ kind: 'RUN', run: { id: runIds[0] } }])
    expect(lengths).toEqual(lengths.toSorted((one, other) => one - other))
    await when(live, ({ activity }) => activity[0]?.active === false)
    expect(connection.getState()).toBe('live')
  })

  test('earlier pages load up to the first message, and unchanged objects keep their identity', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    for (let at = 1; at <= 60; at++) await parley.send(human, space.id, `${at}`)
    const live = liveSpace(await connect(human), { spaceId: space.id })
    const stop = live.subscribe(() => {})
    const { messages, hasEarlier } = await when(live, ({ status }) => status === 'live')
    expect([messages.length, messages[0]?.seq, hasEarlier]).toEqual([50, 11, true])
    await live.loadUntil(5)
    const all = live.getState()
    expect([all.messages.map(({ seq }) => seq), all.hasEarlier]).toEqual([
      Array.from({ length: 60 }, (_, at) => at + 1),
      false,
    ])
    expect(all.messages[59]).toBe(messages[49])
    stop()
    await parley.send(human, space.id, 'while nobody listens')
    await when(live, (state) => textsOf(state).at(-1) === 'while nobody listens')
    expect(live.getState().messages.length).toBe(61)
  })

  test('old messages are evicted on request, but not while earlier ones load, and can be loaded again', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    for (let at = 1; at <= 120; at++) await parley.send(human, space.id, `${at}`)
    const live = liveSpace(await connect(human), { spaceId: space.id })
    stops.push(live.subscribe(() => {}))
    const { messages } = await when(live, ({ status }) => status === 'live')
    live.keepNewest(10)
    const { messages: kept, hasEarlier } = live.getState()
    expect([kept.map(({ seq }) => seq), hasEarlier]).toEqual([Array.from({ length: 10 }, (_, at) => at + 111), true])
    expect(kept[9]).toBe(messages[49])
    // This also holds between two pages. A client that requests earlier messages gets them in the end.
    const stop = live.subscribe(() => live.keepNewest(10))
    await live.loadUntil(1)
    stop()
    const all = live.getState()
    expect([all.messages.map(({ seq }) => seq), all.hasEarlier]).toEqual([
      Array.from({ length: 120 }, (_, at) => at + 1),
      false,
    ])
  })

  test('a viewer who loses access to a space is given the reason', async () => {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const { spaces, members } = parley.app.domain
    const memberIds = [ada.id, bob.id]
    const space = await spaces.create(parley.admin, { name: 'Attic', routing: 'BROADCAST', memberIds })
    const live = liveSpace(await connect(bob), { spaceId: space.id })
    stops.push(live.subscribe(() => {}))
    await when(live, ({ status }) => status === 'live')
    await members.remove(ada, { spaceId: space.id, entityId: bob.id })
    expect((await when(live, ({ status }) => status === 'ended')).error).toMatchObject({ code: 'FORBIDDEN' })
    await expect(live.send({ text: 'Hello?' })).rejects.toMatchObject({ name: 'ParleyError', code: 'NOT_FOUND' })
  })

  test('edits, reactions and deletion change the message in place; presence uses the same subscription, even after a reconnect', async () => {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const { spaces, messageChanges, presence } = parley.app.domain
    const space = await spaces.create(parley.admin, { name: 'Attic', routing: 'BROADCAST', memberIds })
    const live = liveSpace(await connect(bob), { spaceId: space.id, withActivity: false, withPresence: true })
    stops.push(live.subscribe(() => {}))
    await when(live, ({ presence }) => presence.get(bob.id)?.presence === 'ONLINE')
    expect(live.getState().presence.get(ada.id)?.presence).toBe('OFFLINE')
    const { message } = await parley.send(ada, space.id, 'Helo')
    const other = await parley.send(ada, space.id, 'Other')
    await when(live, ({ messages }) => messages.length === 2)

    await messageChanges.edit(ada, { messageId: message.id, text: 'Hello' })
    await messageChanges.react(bob, { messageId: message.id, emoji: '👍' })
    const state = await when(live, ({ messages: [first] }) => first?.reactions.length === 1)
    expect(textsOf(state)).toEqual(['Hello', 'Other'])
    expect(state.messages[0]).toMatchObject({
      editedAt: expect.any(String),
      deletedAt: null,
      reactions: [{ emoji: '👍', count: 1, mine: true }],
    })
    await messageChanges.react(bob, { messageId: message.id, emoji: '👍', on: false })
    await when(live, ({ messages: [first] }) => first?.reactions.length === 0)
    await messageChanges.delete(ada, { messageId: other.message.id })
    expect((await when(live, ({ messages }) => messages[1]?.deletedAt !== null)).messages[1]?.parts).toEqual([])

    await presence.setTyping(ada, { spaceId: space.id })
    await when(live, ({ presence }) => (presence.get(ada.id)?.typingUntil ?? null) !== null)
    cut()
    stops.push(liveSpace(await connect(ada), { spaceId: space.id }).subscribe(() => {}))
    await when(live, ({ presence }) => presence.get(ada.id)?.presence === 'ONLINE')
  })

  test('a run is followed from its first step to its end, even across a reconnect', async () => {
    const { human, agent, space } = await parley.room()
    const gate = Promise.withResolvers<void>()
    const second = [{ text: 'Thinking aloud.', chunks: ['Thinking ', gate.promise, 'aloud.'] }]
    parley.models.script(forAgent(agent.name, steps(speech('Hello.'), second)))
    const { runs } = await parley.send(human, space.id, 'Hi')
    const live = liveRun(await connect(parley.admin), { runId: runs[0]?.id ?? '' })
    await when(live, ({ steps: [, step] }) => step?.text === 'Thinking ')
    cut()
    gate.resolve()
    const { run, steps: told, error } = await when(live, ({ status }) => status === 'ended')
    expect([run?.status, error]).toEqual(['COMPLETED', null])
    expect(told.map(({ index, text }) => [index, text])).toEqual([
      [0, ''],
      [1, 'Thinking aloud.'],
    ])
    expect(told[0]?.calls).toMatchObject([{ toolName: 'send_message', status: 'DONE' }])
    expect(JSON.parse(told[0]?.inputs[0]?.json ?? '')).toEqual({ text: 'Hello.' })
  })

  test('the viewer view has the spaces by activity, unread counts, and pending calls', async () => {
    const tool = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE' as const }
    const { human, agent, space } = await parley.room('Asker', { tools: [tool] })
    const other = await parley.space(human, [], { name: 'Attic' })
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'ask', input: {} }], [{ text: 'ok' }])))
    const live = liveViewer(await connect(human))
    const first = await when(live, ({ hasAllSpaces }) => hasAllSpaces)
    expect([first.viewer?.human?.id, first.spaces.map(({ id }) => id)]).toEqual([human.id, [other.id, space.id]])
    await parley.send(human, space.id, 'Ask me')
    const waiting = await when(
      live,
      ({ pendingToolCalls, unreadCount }) => pendingToolCalls.length === 1 && unreadCount === 1,
    )
    expect(waiting.spaces.map(({ id, unreadCount }) => [id, unreadCount])).toEqual([
      [space.id, 1],
      [other.id, 0],
    ])
    expect(waiting.pendingToolCalls).toMatchObject([{ toolName: 'ask', message: { space: { id: space.id } } }])
    const answer = `mutation ($id: ID!) { submitToolResult(input: { toolCallId: $id, result: {} }) { __typename } }`
    const { data } = await (await parley.clientOf(human)).ask(answer, { id: waiting.pendingToolCalls[0]?.id })
    expect(data).toEqual({ submitToolResult: { __typename: 'SubmitToolResultPayload' } })
    await when(live, ({ pendingToolCalls }) => pendingToolCalls.length === 0)
  })

  test('the AI SDK’s chat works in a space: streaming text, calls with results, failures, and stopping', async () => {
    const card = {
      name: 'card',
      description: 'Shows.',
      inputSchema: { type: 'object' },
      execution: 'INTERNAL' as const,
      visible: true,
    }
    const { human, agent, space } = await parley.room('Artist', { tools: [card] })
    const gate = Promise.withResolvers<void>()
    const connection = await connect(human)
    const chat = new Chat(createChatTransport({ connection, spaceId: space.id }))
    parley.models.script(
      forAgent(
        agent.name,
        steps([...speech('One ', gate.promise, 'two.'), { toolCall: 'card', input: { a: 1 } }], [{ text: 'ok' }]),
      ),
    )
    const sent = chat.sendMessage({ text: 'Count.' })
    await chat.when((message) => JSON.stringify(message.parts).includes('"One "'))
    gate.resolve()
    await sent
    expect([chat.status, chat.lastMessage?.parts]).toMatchObject([
      'ready',
      [
        { type: 'text', text: 'One two.', state: 'done' },
        { type: 'dynamic-tool', toolName: 'card', state: 'output-available', output: { a: 1 } },
      ],
    ])

    parley.models.reset()
    parley.models.script(forAgent(agent.name, () => [{ error: 'Incorrect API key provided', status: 401 }]))
    await chat.sendMessage({ text: 'Again.' })
    expect([chat.status, chat.error?.message]).toEqual([
      'error',
      expect.stringContaining('An admin has to correct the key'),
    ])

    parley.models.reset()
    parley.models.script(forAgent(agent.name, steps(speech('Three ', new Promise(() => {})))))
    const third = chat.sendMessage({ text: 'And on.' })
    await chat.when((message) => JSON.stringify(message.parts).includes('"Three "'))
    await chat.stop()
    await third
    const live = liveSpace(connection, { spaceId: space.id })
    await when(live, ({ messages }) => messages.at(-1)?.status === 'INTERRUPTED')
  })
})

/** The AI SDK's chat as in `useChat`, but without React. */
class Chat extends AbstractChat<UIMessage> {
  readonly #listeners = new Set<() => void>()

  constructor(transport: ReturnType<typeof createChatTransport>) {
    const listeners = new Set<() => void>()
    const state: ChatState<UIMessage> = {
      status: 'ready',
      error: undefined,
      messages: [],
      pushMessage(message) {
        state.messages = [...state.messages, message]
        for (const listener of listeners) listener()
      },
      popMessage() {
        state.messages = state.messages.slice(0, -1)
      },
      replaceMessage(index, message) {
        state.messages = state.messages.with(index, message)
        for (const listener of listeners) listener()
      },
      snapshot: (thing) => structuredClone(thing),
    }
    super({ transport, state })
    this.#listeners = listeners
  }

  when(condition: (last: UIMessage) => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        const last = this.messages.at(-1)
        if (last?.role === 'assistant' && condition(last)) resolve()
      }
      this.#listeners.add(look)
      look()
    })
  }
}
