import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Connection, createConnection } from '../../client/connection.ts'
import { type LiveSpace, liveSpace } from '../../client/live-space.ts'
import { createLiveThread, type Follower, type ThreadState } from '../../client/live-thread.ts'
import { THREAD } from '../../client/operations.ts'
import type { Message, SpaceEvent } from '../../client/space-events.ts'
import type { HumanViewer as Human } from '../../src/access/viewer.ts'
import { when } from '../support/live-state.ts'
import { forAgent, when as script, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { wokenBy } from '../support/stage.ts'

const textsOf = (messages: readonly Message[]) =>
  messages.map(({ parts: [part] }) => (part?.__typename === 'TextPart' ? part.text : ''))

describe('threads in the live client', () => {
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

  async function connect(viewer: Human): Promise<Connection> {
    class Watched extends WebSocket {
      constructor(url: string, protocols?: string | string[]) {
        super(url, protocols)
        sockets.push(this)
      }
    }
    const token = await parley.tokenOf(viewer)
    const connection = createConnection({ url: parley.origin, token, webSocketImpl: Watched })
    stops.push(() => connection.close())
    return connection
  }
  async function twoPeople() {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const { spaces } = parley.app.domain
    const space = await spaces.create(parley.admin, { name: 'Garden', routing: 'BROADCAST', memberIds })
    return { ada, bob, space }
  }
  async function follow(viewer: Human, spaceId: string): Promise<LiveSpace> {
    const connection = await connect(viewer)
    const live = liveSpace(connection, { spaceId, withActivity: false, rootsOnly: true, viewerId: viewer.id })
    stops.push(live.subscribe(() => {}))
    await when(live, ({ status }) => status === 'live')
    return live
  }
  const reply = async (viewer: Human, spaceId: string, replyToId: string, text: string) =>
    (await parley.app.domain.sending.send(viewer, { spaceId, text, replyToId })).message

  test('the messages are those outside threads; replies are counted, before and after the snapshot and a lost connection', async () => {
    const { ada, bob, space } = await twoPeople()
    const { message: root } = await parley.send(ada, space.id, 'root')
    for (let at = 1; at <= 60; at++) await reply(bob, space.id, root.id, `${at}`)
    await parley.send(bob, space.id, 'other')
    const live = await follow(ada, space.id)
    expect(textsOf(live.getState().messages)).toEqual(['root', 'other'])
    expect(live.getState().hasEarlier).toBe(false)
    expect(live.getState().threads.get(root.id)).toMatchObject({ replyCount: 60, unreadCount: 60 })

    await reply(bob, space.id, root.id, '61')
    await when(live, ({ threads }) => threads.get(root.id)?.replyCount === 61)
    for (const socket of sockets.splice(0)) socket.close(4000, 'cut by the test')
    await reply(ada, space.id, root.id, '62')
    const [, other] = live.getState().messages
    const first = await reply(bob, space.id, other?.id ?? '', 'first')
    const { threads, messages } = await when(live, (state) => state.threads.has(other?.id ?? ''))
    expect(threads.get(root.id)).toMatchObject({ replyCount: 62, unreadCount: 61 })
    expect(threads.get(other?.id ?? '')).toMatchObject({ replyCount: 1, unreadCount: 1 })
    expect(textsOf(messages)).toEqual(['root', 'other'])
    // A message newer than the read ones is unread.
    live.readThread(other?.id ?? '', first.seq - 1)
    expect(live.getState().threads.get(other?.id ?? '')?.unreadCount).toBe(1)
    live.readThread(other?.id ?? '', first.seq)
    expect(live.getState().threads.get(other?.id ?? '')?.unreadCount).toBe(0)
  })

  test('a thread is read page by page, and follows the events of its space, even after a lost connection', async () => {
    const { ada, bob, space } = await twoPeople()
    const { message: root } = await parley.send(ada, space.id, 'root')
    const { message: other } = await parley.send(ada, space.id, 'other')
    for (let at = 1; at <= 60; at++) await reply(bob, space.id, root.id, `${at}`)
    const live = await follow(ada, space.id)
    const thread = live.thread(root.id)
    stops.push(thread.subscribe(() => {}))
    const opened = await when(thread, ({ status }) => status === 'live')
    expect([textsOf(opened.replies).slice(0, 2), opened.replies.length, opened.hasEarlier]).toEqual([
      ['11', '12'],
      50,
      true,
    ])
    expect(opened.root?.id).toBe(root.id)
    await thread.loadUntil(1)
    const numbers = Array.from({ length: 60 }, (_, at) => `${at + 1}`)
    expect(textsOf(thread.getState().replies)).toEqual(numbers)
    expect(thread.getState().hasEarlier).toBe(false)

    await reply(bob, space.id, other.id, 'elsewhere')
    await parley.send(bob, space.id, 'outside')
    for (const socket of sockets.splice(0)) socket.close(4000, 'cut by the test')
    const last = await reply(bob, space.id, root.id, '61')
    await when(thread, ({ replies }) => replies.length === 61)
    const { messageChanges } = parley.app.domain
    await messageChanges.edit(ada, { messageId: root.id, text: 'changed' })
    await messageChanges.edit(bob, { messageId: last.id, text: 'sixty-one' })
    const changed = ({ root: now, replies }: ThreadState) =>
      now?.editedAt != null && textsOf(replies).at(-1) === 'sixty-one'
    expect(textsOf((await when(thread, changed)).replies)).toEqual([...numbers, 'sixty-one'])
    const none = live.thread('msg_0')
    stops.push(none.subscribe(() => {}))
    await when(none, ({ status }) => status === 'ended')
  })

  test('a thread that cannot be reloaded after lost events reports that, applies no later events, and is loaded eventually', async () => {
    const { ada, bob, space } = await twoPeople()
    const { message: root } = await parley.send(ada, space.id, 'root')
    await reply(bob, space.id, root.id, '1')
    const connection = await connect(ada)
    let fails = false
    const ask: Connection['ask'] = (operation, ...given) =>
      fails && operation.toString() === THREAD.toString()
        ? Promise.reject(new Error('away'))
        : connection.ask(operation, ...given)
    const parts = { spaceId: space.id, rootId: root.id, isFollowing: () => true }
    let follower: Follower | undefined
    const thread = createLiveThread({ ...connection, ask } as Connection, {
      ...parts,
      follow(given) {
        follower = given
        return () => {}
      },
    })
    stops.push(thread.subscribe(() => {}))
    const { replies } = await when(thread, ({ status }) => status === 'live')
    fails = true
    follower?.apply({ __typename: 'SpaceSnapshot' } as SpaceEvent)
    const failed = await when(thread, ({ error }) => error !== null)
    expect([failed.status, failed.error?.message, textsOf(failed.replies)]).toEqual(['live', 'away', ['1']])
    const [first] = replies as [Message]
    follower?.apply({ __typename: 'MessagePosted', cursor: '', message: { ...first, id: 'msg_3', seq: 4 } })
    expect(textsOf(thread.getState().replies)).toEqual(['1'])
    await reply(bob, space.id, root.id, '2')
    fails = false
    const again = await when(thread, ({ error }) => error === null)
    expect([again.status, textsOf(again.replies)]).toEqual(['live', ['1', '2']])
  }, 20_000)

  test('a thread continues without its first message; a reply, and a message of another space, have no thread', async () => {
    const { ada, bob, space } = await twoPeople()
    const other = await parley.space(ada, [], { name: 'Attic' })
    const { message: elsewhere } = await parley.send(ada, other.id, 'elsewhere')
    const { message: root } = await parley.send(ada, space.id, 'root')
    const first = await reply(bob, space.id, root.id, '1')
    await reply(bob, space.id, root.id, '2')
    // Deletes the message as retention does.
    await parley.app.platform.db.prisma.message.delete({ where: { id: root.id } })
    const live = await follow(ada, space.id)
    const thread = live.thread(root.id)
    stops.push(thread.subscribe(() => {}))
    const opened = await when(thread, ({ status }) => status === 'live')
    expect([opened.root, textsOf(opened.replies)]).toEqual([null, ['1', '2']])
    await live.send({ text: '3', replyToId: root.id })
    await when(thread, ({ replies }) => replies.length === 3)
    expect(textsOf(live.getState().messages)).toEqual([])
    for (const id of [first.id, elsewhere.id]) {
      const none = live.thread(id)
      stops.push(none.subscribe(() => {}))
      await when(none, ({ status }) => status === 'ended')
    }
  })

  test('an answer that streams in a thread grows there; one that moves into a thread while it streams leaves the list of the space', async () => {
    const { human, agent, space } = await parley.room('Iris')
    const { message: root } = await parley.send(human, space.id, 'root')
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const inPlace = ['{"text":"', 'One ', gates[0]?.promise as Promise<void>, 'two"}']
    // The model writes the place after the text.
    const moving = ['{"text":"', 'Three ', gates[1]?.promise as Promise<void>, `four","replyTo":"${root.id}"}`]
    const saying = (words: string, chunks: (string | Promise<void>)[]) =>
      script(wokenBy(words), steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }]))
    parley.models.script(forAgent(agent.name, saying('Go on.', inPlace)))
    parley.models.script(forAgent(agent.name, saying('And outside?', moving)))
    const live = await follow(human, space.id)
    const thread = live.thread(root.id)
    stops.push(thread.subscribe(() => {}))
    await when(thread, ({ status }) => status === 'live')
    await reply(human, space.id, root.id, 'Go on.')
    await when(thread, ({ replies }) => textsOf(replies).at(-1) === 'One ')
    expect(textsOf(live.getState().messages)).toEqual(['root'])
    gates[0]?.resolve()
    await when(thread, ({ replies }) => replies.at(-1)?.status === 'COMPLETE' && replies.length === 2)

    await parley.send(human, space.id, 'And outside?')
    await when(live, ({ messages }) => textsOf(messages).at(-1) === 'Three ')
    gates[1]?.resolve()
    const moved = await when(thread, ({ replies }) => replies.length === 3 && replies[2]?.status === 'COMPLETE')
    expect(textsOf(moved.replies)).toEqual(['Go on.', 'One two', 'Three four'])
    const { messages, threads } = await when(live, (state) => state.messages.length === 2)
    expect(textsOf(messages)).toEqual(['root', 'And outside?'])
    expect(threads.get(root.id)).toMatchObject({ replyCount: 3 })
  })
})
