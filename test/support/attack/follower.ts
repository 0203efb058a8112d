import { WebSocket } from 'ws'

/** Follows a space as a member's client does: resumes by the cursor when the server closes the socket with 1013. */
export interface Follower {
  /** How often each posted message was delivered. */
  posted: ReadonlyMap<string, number>
  /** The snapshots after the first one, each as the `seq` up to which it contains everything. */
  resumedAt: readonly number[]
  /** How many times the subscription had to resume. */
  resumptions(): number
  /** Events that a client does not expect. */
  faults: readonly string[]
  /** The greatest `seq` that a message or snapshot has delivered. */
  seq(): number
  stop(): void
}

const DOCUMENT = `subscription ($id: ID!, $after: StreamCursor) { spaceMessages(spaceId: $id, after: $after) { __typename cursor
  ... on SpaceSnapshot { space { id messages(last: 1) { edges { node { id seq } } } } }
  ... on MessagePosted { message { id seq status text sender { id name } } } } }`
/** The close code after which the client tries again later. */
const RETRY = 1013
const RETRY_MS = 200

interface Delivered {
  cursor: string
  message?: { id: string; seq: number }
  space?: { messages: { edges: { node: { seq: number } }[] } }
}

/** Follows a space from now on; resolves with the first event. */
export async function follow(origin: string, token: string, spaceId: string): Promise<Follower> {
  const posted = new Map<string, number>()
  const [resumedAt, faults]: [number[], string[]] = [[], []]
  let [after, seq, resumptions, isStopped]: [string | null, number, number, boolean] = [null, 0, 0, false]
  let current: WebSocket | null = null
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()

  function deliver({ cursor, message, space }: Delivered): void {
    after = cursor
    if (message !== undefined) {
      posted.set(message.id, (posted.get(message.id) ?? 0) + 1)
      seq = Math.max(seq, message.seq)
    }
    if (space !== undefined) {
      const last = space.messages.edges[0]?.node.seq ?? 0
      resumedAt.push(last)
      seq = Math.max(seq, last)
    }
    begin()
  }

  function receive(socket: WebSocket, text: string): void {
    const { type, payload } = JSON.parse(text) as { type: string; payload?: { data?: { spaceMessages: Delivered } } }
    if (type === 'connection_ack') {
      const subscription = { query: DOCUMENT, variables: { id: spaceId, after } }
      socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: subscription }))
    } else if (type === 'ping') socket.send('{"type":"pong"}')
    else if (type === 'next' && payload?.data?.spaceMessages) deliver(payload.data.spaceMessages)
    else if (type !== 'pong') {
      faults.push(`the subscription was sent ${text.slice(0, 300)}`)
      socket.close()
    }
  }

  function open(): void {
    if (isStopped) return
    const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    current = socket
    socket.once('open', () => {
      const init = { type: 'connection_init', payload: { authorization: `Bearer ${token}` } }
      socket.send(JSON.stringify(init))
    })
    socket.on('message', (data) => receive(socket, String(data)))
    socket.on('error', () => {})
    socket.once('close', (code, reason) => {
      if (isStopped) return
      resumptions += 1
      if (code !== RETRY && code !== 1005) faults.push(`the socket was closed with ${code} ${reason}`)
      setTimeout(open, RETRY_MS)
    })
  }

  open()
  await begun
  // Following begins with the first snapshot.
  resumedAt.length = 0
  return {
    posted,
    resumedAt,
    faults,
    resumptions: () => resumptions,
    seq: () => seq,
    stop() {
      isStopped = true
      current?.close()
    },
  }
}
