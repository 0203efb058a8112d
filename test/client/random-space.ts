import type { LiveMessagesFragment } from '../../client/generated/graphql.ts'
import type { Message, MessagePart, SpaceEvent } from '../../client/space-events.ts'
import type { Transcript } from '../../client/transcript.ts'

/** A space with random new, growing and finished messages, and a server that gives only the guarantees of the contract. */
export interface RandomSpace {
  /**
   * Plays all events while a client follows over a connection that breaks, repeats and reorders them. The client drops old
   * messages at times.
   */
  play(client: Transcript): void
  /** Requests every earlier page. */
  loadAll(client: Transcript): void
  database(): Message[]
}

interface Asked {
  take(page: LiveMessagesFragment): void
  page: LiveMessagesFragment
}

type Entry = (cursor: string) => SpaceEvent | null
const PAGE = 3
const TEXTS = ['Hello', ' Ada,', ' how is', ' the garden', '?']

export function createRandomSpace(choices: number[]): RandomSpace {
  const messages: Message[] = []
  /** Objects in an event have their state at the time of delivery, so an entry creates its event only at that time. */
  const log: Entry[] = []
  let turn = 0
  const pick = (below: number) => (choices[turn++ % choices.length] ?? 0) % below
  const copy = <Value>(value: Value): Value => structuredClone(value)
  const messageOf = (id: string) => messages.find((message) => message.id === id)
  const tell = (__typename: 'MessagePosted' | 'MessageUpdated' | 'MessageFinished', { id }: Message) =>
    log.push((cursor) => ({ __typename, cursor, message: copy(messageOf(id) as Message) }))

  function post(isHuman: boolean): void {
    const seq = messages.length + 1
    const sender = isHuman
      ? { id: 'hum_1', name: 'Ada', kind: 'HUMAN' as const }
      : { id: 'agt_1', name: 'Iris', kind: 'AGENT' as const }
    const text: MessagePart = { __typename: 'TextPart', id: `m${seq}:0`, index: 0, text: 'Hi' }
    const message: Message = {
      id: `m${seq}`,
      seq,
      status: isHuman ? 'COMPLETE' : 'STREAMING',
      createdAt: '2026-11-22T00:00:00Z',
      sender,
      actingAdmin: null,
      mentionedAgent: null,
      mentions: [],
      run: null,
      origin: null,
      outcomes: [],
      waitingCall: null,
      rootUsage: null,
      editedAt: null,
      deletedAt: null,
      replyTo: null,
      threadRootId: null,
      reactions: [],
      parts: isHuman ? [text] : [],
    }
    messages.push(message)
    tell('MessagePosted', message)
  }

  function write(message: Message): void {
    const last = message.parts.at(-1)
    const piece = TEXTS[pick(TEXTS.length)] ?? ''
    const part =
      last?.__typename === 'TextPart' && pick(4) > 0
        ? last
        : {
            __typename: 'TextPart' as const,
            id: `${message.id}:${message.parts.length}`,
            index: message.parts.length,
            text: '',
          }
    if (part !== last) message.parts.push(part)
    const offset = part.text.length
    part.text += piece
    const { id: messageId } = message
    log.push((cursor) => ({
      __typename: 'MessageTextDelta',
      cursor,
      messageId,
      partIndex: part.index,
      offset,
      delta: piece,
    }))
  }

  function call(message: Message): void {
    const waiting = message.parts.find((part) => part.__typename === 'ToolCallPart' && part.toolCall.status !== 'DONE')
    const index = waiting?.index ?? message.parts.length
    const status = waiting === undefined ? 'WAITING' : 'DONE'
    message.parts[index] = {
      __typename: 'ToolCallPart',
      id: `${message.id}:${index}`,
      index,
      toolCall: {
        id: `tcl_${message.id}_${index}`,
        toolName: 'ask',
        status,
        input: {},
        output: status === 'DONE' ? 'yes' : null,
        error: null,
        files: [],
        createdAt: '',
        expiresAt: null,
        waitsFor: null,
        agent: { id: 'agt_1', name: 'Iris' },
        resultSchema: null,
        inputSchema: null,
        claimedBy: null,
        answeredBy: null,
        answeredByService: null,
        settledAt: null,
        grant: null,
        authorization: null,
        approval: null,
      },
    }
    const { id: messageId } = message
    log.push((cursor) => {
      const part = messageOf(messageId)?.parts[index]
      return { __typename: 'MessagePartChanged', cursor, messageId, part: copy(part as MessagePart) }
    })
  }

  function end(message: Message): void {
    message.status = pick(3) === 0 ? 'INTERRUPTED' : 'COMPLETE'
    // The visible text of an interrupted part can be longer than the stored text.
    const last = message.parts.at(-1)
    if (message.status === 'INTERRUPTED' && last?.__typename === 'TextPart') last.text = last.text.slice(0, 6)
    tell('MessageFinished', message)
  }

  /** Performs one random event in the space. */
  function happen(): void {
    const open = messages.filter(({ status }) => status === 'STREAMING')
    const one = open[pick(Math.max(1, open.length))]
    const what = pick(12)
    if (one === undefined || what < 2) post(pick(2) === 0)
    else if (what < 8) write(one)
    else if (what < 9) call(one)
    else if (what < 10) end(one)
    else outcome()
  }

  function outcome(): void {
    const message = messages[pick(Math.max(1, messages.length))]
    if (message === undefined) return
    const kind = (['RUN', 'FAILED', 'SKIPPED'] as const)[pick(3)] ?? 'RUN'
    message.outcomes = [{ kind, reason: null, error: null, agent: { id: 'agt_1', name: 'Iris' }, run: null }]
    tell('MessageUpdated', message)
  }

  function pageBefore(seq: number): LiveMessagesFragment {
    const nodes = messages.filter((message) => message.seq < seq).slice(-PAGE)
    const hasPreviousPage = (nodes[0]?.seq ?? 1) > 1
    return copy({ edges: nodes.map((node) => ({ node })), pageInfo: { hasPreviousPage } })
  }

  function snapshot(): SpaceEvent {
    const named = { id: 'spc_1', name: 'Garden', description: null, confidential: false }
    const space = { ...named, routing: 'BROADCAST' as const, createdAt: '' }
    const page = pageBefore(Number.POSITIVE_INFINITY)
    return {
      __typename: 'SpaceSnapshot',
      cursor: String(log.length),
      space: { ...space, adminAgent: null, members: [], firstUnreadMessage: null, messages: page },
    }
  }

  function heal(client: Transcript): void {
    for (const id of client.gaps()) {
      const message = messageOf(id)
      if (message === undefined) client.letGo(id)
      else client.put(copy(message))
    }
  }

  /** Returns the entries between two positions, in order or with neighbours swapped. */
  function deliver(client: Transcript, from: number, to: number): void {
    const order = Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at)
    for (let at = 1; at < order.length; at++) {
      if (pick(6) === 0) [order[at - 1], order[at]] = [order[at] as number, order[at - 1] as number]
    }
    for (const at of order) {
      const event = log[at]?.(String(at + 1))
      if (event) client.apply(event)
    }
  }

  /** Requests a page now, whose response arrives some time later. */
  function turnPages(client: Transcript, asked: Asked | null): Asked | null {
    const [first] = client.messages()
    if (asked !== null) {
      if (pick(2) === 0) return asked
      asked.take(asked.page)
      return null
    }
    if (first === undefined || !client.hasEarlier || pick(3) > 0) return null
    return { take: client.beginPage(), page: pageBefore(first.seq) }
  }

  return {
    database: () => messages,
    play(client) {
      client.apply(snapshot())
      let seen = 0
      let asked: Asked | null = null
      while (turn < choices.length) {
        for (let count = pick(6); count >= 0; count--) happen()
        const what = pick(10)
        if (what === 0) {
          // Simulates a gap: the missed entries are no longer stored.
          client.apply(snapshot())
          seen = log.length
        } else {
          // After a lost connection, the client can receive entries again.
          const from = what === 1 ? Math.max(0, seen - pick(5)) : seen
          const to = Math.min(log.length, from + pick(8) + (seen - from))
          deliver(client, from, to)
          seen = Math.max(seen, to)
        }
        asked = turnPages(client, asked)
        if (pick(3) === 0) heal(client)
        if (pick(4) === 0) client.keepNewest(1 + pick(2 * PAGE))
      }
      deliver(client, seen, log.length)
      heal(client)
    },
    loadAll(client) {
      for (let first = client.messages()[0]; first && client.hasEarlier; [first] = client.messages()) {
        client.beginPage()(pageBefore(first.seq))
      }
      heal(client)
    },
  }
}
