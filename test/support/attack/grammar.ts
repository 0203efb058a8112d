import type { RandomDocuments } from '../random-documents.ts'
import { oneOf, type Random } from '../random-documents.ts'
import { heavyQuery, heavySubscription } from './documents.ts'
import { BAD_CURSORS, manyItems, nastyName, nastyText, nested } from './texts.ts'
import type { AttackSocket, Wire } from './wire.ts'
import type { AttackWorld, Person } from './world.ts'

/** A hostile member during an attack. */
export interface Attacker {
  me: Person
  world: AttackWorld
  random: Random
  wire: Wire
  /** Operations built from the schema, on objects that only hostile members have. */
  documents: RandomDocuments
  /** The latest ids in responses, by kind: `msg`, `run`, `tcl`, `spc`. */
  known: Record<string, string[]>
  /** Sends an operation. Records the outcome, and the ids in the response. */
  ask(action: string, query: string, variables?: object, token?: string): Promise<string>
  mutate(action: string, field: string, input: object, selection?: string, token?: string): Promise<string>
  isOver(): boolean
}

/** An action that hostile members repeat within a campaign. */
export interface AttackAction {
  /** The weight of the action relative to the others. */
  weight: number
  /** The limits of one campaign: how many repetitions, and how many at the same time. */
  most: number
  atATime: number
  /**
   * Whether the action uses up the rate limit of a hostile member at once. Some members skip such actions, so that other
   * actions get through.
   */
  isHeavy?: true
  act(attacker: Attacker): Promise<void>
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
const below = (random: Random, most: number) => Math.floor(random() * most)
const WAITING = `{ viewer { pendingToolCalls { id toolName waitsFor approval { inputDigest } } } }`

const spaceOf = ({ random, world: { spaces } }: Attacker) => (random() < 0.5 ? spaces.hall : spaces.pit)
const own = ({ world: { spaces }, known }: Attacker) => [spaces.hall, spaces.pit, ...(known['spc'] ?? []).slice(-20)]
const idOf = ({ random, known }: Attacker, kind: string) => {
  const ids = known[kind] ?? []
  return ids.length === 0 ? `${kind}_00000000000000000000000000` : oneOf(random, ids)
}

/** Opens a socket for one use, and closes it. */
async function withSocket(attacker: Attacker, use: (socket: AttackSocket) => Promise<void>): Promise<void> {
  const socket = await attacker.wire.socket()
  if (socket === null) return attacker.wire.count('socket', 'refused')
  await use(socket)
  attacker.wire.count('socket', socket.isOpen() ? 'open' : 'closed')
  socket.close()
}

async function untilOver({ isOver }: Attacker, ms: number): Promise<void> {
  for (let left = ms; left > 0 && !isOver(); left -= 200) await sleep(Math.min(left, 200))
}

const body = (query: string, variables?: object) => JSON.stringify({ query, variables })

/** All actions of hostile members. Actions that may change the membership of others only use `pit`. */
export const ACTIONS: Record<string, AttackAction> = {
  'post a nasty text': {
    weight: 12,
    most: 100,
    atATime: 4,
    act: async (a) =>
      void (await a.mutate(
        'post',
        'sendMessage',
        { spaceId: spaceOf(a), text: nastyText(a.random) },
        'sentMessage { id } runs { id }',
      )),
  },
  'post to agents': {
    weight: 3,
    most: 30,
    atATime: 2,
    async act(a) {
      const text = oneOf(a.random, ['pay please', 'ask please', 'rave', '@Echo'])
      const mentionedAgentId = a.random() < 0.2 ? oneOf(a.random, Object.values(a.world.agents)) : null
      await a.mutate(
        'post',
        'sendMessage',
        { spaceId: a.world.spaces.pit, text, mentionedAgentId },
        'sentMessage { id } runs { id }',
      )
    },
  },
  'reuse an idempotency key': {
    weight: 2,
    most: 50,
    atATime: 8,
    async act(a) {
      const input = {
        spaceId: a.world.spaces.pit,
        text: `Again ${below(a.random, 2)}`,
        idempotencyKey: oneOf(a.random, ['k', '', 'k'.repeat(201), '\u0000', '\ud800']),
      }
      await a.mutate('idempotency key', 'sendMessage', input, 'sentMessage { id }')
    },
  },
  'query much': {
    isHeavy: true,
    weight: 8,
    most: 40,
    atATime: 6,
    async act(a) {
      const query = heavyQuery(a.random, own(a), Object.values(a.known).flat().slice(-500).concat(a.me.id))
      const reading = oneOf(a.random, ['quick', 'quick', 'slow', 'broken-off'] as const)
      const { status } = await a.wire.post(body(query), { reading })
      a.wire.count('heavy query', String(status))
    },
  },
  'query much on one socket': {
    isHeavy: true,
    weight: 4,
    most: 4,
    atATime: 2,
    act: (a) =>
      withSocket(a, async (socket) => {
        const count = 1 + below(a.random, 150)
        for (let n = 0; n < count && socket.isOpen(); n++) {
          socket.subscribe(String(n), { query: heavyQuery(a.random, own(a), [a.me.id]) })
        }
        await untilOver(a, 3000)
      }),
  },
  'subscribe to much': {
    isHeavy: true,
    weight: 6,
    most: 8,
    atATime: 4,
    act: (a) =>
      withSocket(a, async (socket) => {
        const count = 1 + below(a.random, 110)
        for (let n = 0; n < count && socket.isOpen(); n++) {
          socket.subscribe(String(n), { query: heavySubscription(a.random, own(a), a.known['run'] ?? []) })
        }
        await a.mutate('post', 'sendMessage', { spaceId: a.world.spaces.pit, text: 'hello world' })
        await untilOver(a, 4000)
      }),
  },
  'subscribe by SSE and read slowly': {
    weight: 4,
    most: 6,
    atATime: 4,
    async act(a) {
      const query = heavySubscription(a.random, own(a), a.known['run'] ?? [])
      const done = a.wire.post(body(query), {
        accept: 'text/event-stream',
        reading: oneOf(a.random, ['slow', 'broken-off'] as const),
      })
      await Promise.race([done, untilOver(a, 6000)])
    },
  },
  'pause reading and resume': {
    weight: 5,
    most: 4,
    atATime: 4,
    act: (a) =>
      withSocket(a, async (socket) => {
        for (let n = 0; n < 5; n++) socket.subscribe(String(n), { query: heavySubscription(a.random, own(a), []) })
        await socket.pause(2000 + below(a.random, 15_000))
      }),
  },
  'storm of sockets': {
    weight: 3,
    most: 60,
    atATime: 20,
    act: (a) =>
      withSocket(a, async (socket) => socket.subscribe('1', { query: 'subscription { viewerEvents { __typename } }' })),
  },
  'half-open handshakes': {
    weight: 2,
    most: 40,
    atATime: 40,
    async act(a) {
      const socket = a.wire.raw()
      const upgrade = [
        'GET /graphql HTTP/1.1',
        'host: 127.0.0.1',
        'connection: upgrade',
        'upgrade: websocket',
        'sec-websocket-version: 13',
        'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
        'sec-websocket-protocol: graphql-transport-ws',
      ]
      socket.write(upgrade.slice(0, 1 + below(a.random, upgrade.length)).join('\r\n'))
      if (a.random() < 0.5) socket.write('\r\n\r\n')
      if (a.random() < 0.3) socket.write(Buffer.from(Array.from({ length: 40 }, () => below(a.random, 256))))
      await untilOver(a, 5000)
      socket.destroy()
    },
  },
  'unfinished bodies': {
    weight: 2,
    most: 60,
    atATime: 60,
    act: (a) => a.wire.unfinishedBody(1 + below(a.random, 2 ** 20)),
  },
  'bodies that are none': {
    weight: 3,
    most: 60,
    atATime: 6,
    async act(a) {
      const text = oneOf(a.random, [
        '',
        '{',
        'null',
        '[]',
        '{"query":1}',
        '{"query":"{viewer{id}}","variables":[]}',
        '\u0000',
        'x'.repeat(2 ** 20 + 1),
        '['.repeat(20_000),
        JSON.stringify(Array(50).fill({ query: '{ viewer { id } }' })),
      ])
      const { status } = await a.wire.post(text, {
        contentType: oneOf(a.random, ['application/json', 'text/plain', 'multipart/form-data; boundary=x']),
      })
      a.wire.count('bad body', String(status))
    },
  },
  'huge variables': {
    weight: 3,
    most: 10,
    atATime: 4,
    async act(a) {
      const value = oneOf(a.random, [
        () => nested(190),
        () => nested(1500),
        () => manyItems(6000),
        () => ({ ['k'.repeat(200_000)]: 1 }),
        () => '漢'.repeat(200_000),
        () => 1e308,
      ])()
      await a.mutate('huge result', 'submitToolResult', { toolCallId: idOf(a, 'tcl'), result: value })
    },
  },
  'decide and edit and claim': {
    weight: 6,
    most: 80,
    atATime: 4,
    async act(a) {
      if (a.random() < 0.1 || (a.known['tcl'] ?? []).length === 0) await a.ask('pending calls', WAITING)
      const toolCallId = idOf(a, 'tcl')
      const kind = a.random()
      if (kind < 0.35) {
        const release = a.random() < 0.5
        await a.mutate('claim', 'claimToolCall', { toolCallId, release })
      } else {
        const input =
          a.random() < 0.6 ? { amount: below(a.random, 1e6), items: manyItems(a.random() < 0.2 ? 3000 : 3) } : undefined
        const approve = a.random() < 0.8
        await a.mutate(
          'decide',
          'decideToolCall',
          {
            toolCallId,
            approve,
            input,
            reason: nastyText(a.random).slice(0, 2000),
            inputDigest: a.known['digest']?.at(-1),
          },
          'toolCall { approval { inputDigest } }',
        )
      }
    },
  },
  'submit results': {
    weight: 4,
    most: 60,
    atATime: 6,
    async act(a) {
      const result = a.random() < 0.5 ? { items: manyItems(1 + below(a.random, 4000)) } : nastyText(a.random)
      const token = a.random() < 0.3 ? a.world.serviceToken : undefined
      await a.mutate('submit', 'submitToolResult', { toolCallId: idOf(a, 'tcl'), result }, '__typename', token)
    },
  },
  'create spaces': {
    weight: 2,
    most: 40,
    atATime: 4,
    async act(a) {
      const { world } = a
      const memberIds = [...Object.values(world.agents), world.honest.id, ...world.hostile.map(({ id }) => id)].filter(
        () => a.random() < 0.5,
      )
      const routing = oneOf(a.random, ['BROADCAST', 'ADMIN', 'MENTION_CHAIN'])
      await a.mutate(
        'create space',
        'createSpace',
        { name: nastyName(a.random), description: nastyText(a.random).slice(0, 3000), memberIds, routing },
        'space { id }',
      )
    },
  },
  'add and remove members': {
    weight: 2,
    most: 60,
    atATime: 6,
    async act(a) {
      const input = {
        spaceId: a.world.spaces.pit,
        entityId: oneOf(a.random, [...Object.values(a.world.agents), a.world.honest.id, 'hum_nobody']),
      }
      await a.mutate('members', a.random() < 0.5 ? 'addMember' : 'removeMember', input)
      if (a.random() < 0.1)
        await a.mutate('members', 'removeMember', {
          spaceId: a.world.spaces.hall,
          entityId: a.world.colleague.id.replace(/.$/, '0'),
        })
    },
  },
  'change the space': {
    weight: 1,
    most: 40,
    atATime: 4,
    act: async (a) =>
      void (await a.mutate('change space', 'updateSpace', {
        id: a.world.spaces.pit,
        name: nastyName(a.random),
        description: nastyText(a.random),
      })),
  },
  'bad cursors': {
    weight: 3,
    most: 60,
    atATime: 6,
    async act(a) {
      const cursor = oneOf(a.random, BAD_CURSORS)
      const id = spaceOf(a)
      if (a.random() < 0.5) {
        const page = oneOf(a.random, [
          'first: 100',
          'last: 100',
          'first: 0',
          'first: -1',
          'first: 2000000000',
          'first: 1, last: 1',
        ])
        await a.ask(
          'bad cursor',
          `query ($id: ID!, $c: String) { space(id: $id) { messages(${page}, after: $c) { edges { node { id } } } } }`,
          { id, c: cursor },
        )
      } else {
        await withSocket(a, async (socket) => {
          const query =
            'subscription ($id: ID!, $c: StreamCursor) { spaceMessages(spaceId: $id, after: $c) { __typename cursor } }'
          socket.subscribe('1', { query, variables: { id, c: cursor } })
          await sleep(100)
        })
      }
    },
  },
  'many mutations in one operation': {
    weight: 3,
    most: 20,
    atATime: 3,
    async act(a) {
      const count = 1 + below(a.random, 100)
      const one = oneOf(a.random, [
        `sendMessage(input: { spaceId: "${a.world.spaces.pit}", text: "x" }) { __typename }`,
        `markRead(input: { spaceId: "${a.world.spaces.pit}", messageId: "${idOf(a, 'msg')}" }) { __typename }`,
        `claimToolCall(input: { toolCallId: "${idOf(a, 'tcl')}" }) { __typename }`,
      ])
      await a.ask('mutations', `mutation { ${Array.from({ length: count }, (_, n) => `m${n}: ${one}`).join(' ')} }`)
    },
  },
  'trigger agents': {
    weight: 3,
    most: 60,
    atATime: 6,
    async act(a) {
      const payload = oneOf(a.random, [
        () => ({}),
        () => nested(150),
        () => nastyText(a.random),
        () => manyItems(2000),
      ])()
      const agentId = oneOf(a.random, [a.world.agents.mind, a.world.agents.raver, a.world.agents.asker])
      const token = a.random() < 0.8 ? a.world.serviceToken : undefined
      await a.mutate('trigger', 'triggerAgent', { agentId, payload, urgent: a.random() < 0.3 }, 'run { id }', token)
    },
  },
  'stop and retry runs': {
    weight: 3,
    most: 60,
    atATime: 4,
    async act(a) {
      const runId = idOf(a, 'run')
      await (a.random() < 0.7
        ? a.mutate('stop', 'stopRun', { runId })
        : a.mutate('retry', 'retryRun', { runId }, 'run { id }'))
    },
  },
  'read as an admin would': {
    weight: 2,
    most: 20,
    atATime: 4,
    async act(a) {
      const query = oneOf(a.random, [
        '{ auditLog(first: 100) { edges { node { id detail } } } accessTokens(first: 100) { edges { node { id } } } webhooks(first: 100) { edges { node { url } } } modelProviders { baseUrl } }',
        '{ agents(first: 100) { edges { node { internals { instructions memories { value } consciousness { messages } inbox(first: 100) { edges { node { payload } } } } } } } }',
        `{ run(id: "${idOf(a, 'run')}") { summary internals { steps(first: 100) { edges { node { messages response } } } } } }`,
        `{ space(id: "${a.world.spaces.quiet}") { messages(last: 100) { edges { node { text } } } } }`,
        '{ humans(first: 100, search: "%") { edges { node { externalId } } } usage(from: "0001-01-01T00:00:00Z", to: "9999-01-01T00:00:00Z", by: [AGENT, DAY, MODEL, SPACE]) { runs } }',
      ])
      await a.ask('as an admin', query)
    },
  },
  'anything from the schema': {
    weight: 4,
    most: 60,
    atATime: 4,
    async act(a) {
      const { status } = await a.wire.post(JSON.stringify(a.documents.next()), { accept: 'application/json' })
      a.wire.count('random document', String(status))
    },
  },
  'a bad token': {
    weight: 1,
    most: 60,
    atATime: 6,
    async act(a) {
      const { status } = await a.wire.post(body('{ viewer { id } }'), {
        token: oneOf(a.random, ['x', 'eyJhbGciOiJub25lIn0.e30.', 'a'.repeat(7000)]),
      })
      a.wire.count('bad token', String(status))
    },
  },
}
