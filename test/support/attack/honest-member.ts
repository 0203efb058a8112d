import type { Json } from '../../e2e/deployed.ts'
import { createParleyClient } from '../parley-client.ts'
import type { AttackWorld } from './world.ts'

/** The timed actions of the honest member: their names, and the pause between two actions. */
const EVERY_MS = {
  'ask who I am': 100,
  'read 50 messages': 400,
  'send a message': 700,
  'deny a call': 2500,
  'leave a space': 1500,
  'stop a run': 3000,
  subscribe: 1500,
  'get an answer from an agent': 3000,
} as const
/** Occasional actions that must succeed but are not timed, because their duration depends on other members' texts. */
const UNTIMED_EVERY_MS = { 'read the hall': 3000, 'list my spaces': 3000 } as const
const CONTROL_EVERY_MS = 100
const ANSWERED_WITHIN_MS = 30_000

export type HonestOperation = keyof typeof EVERY_MS
export const HONEST_OPERATIONS = Object.keys(EVERY_MS) as HonestOperation[]

export interface Measured {
  /** The duration of each action, in ms. */
  took: Record<HonestOperation, number[]>
  /** The durations for the bare HTTP server, in ms. */
  control: number[]
  /** Each failed operation, with its error and its time in seconds since the beginning. */
  refused: string[]
}

export interface HonestMember {
  /** Works for a given time. */
  work(seconds: number): Promise<Measured>
  close(): Promise<void>
}

const PAGE = `query ($id: ID!) { space(id: $id) { id name streamCursor messages(last: 50) { edges { node { id seq status text
  sender { id name kind } parts { __typename ... on TextPart { text } ... on ToolCallPart { toolCall { id toolName status } } } outcomes { kind } } } pageInfo { hasPreviousPage } } } }`
const LIST = `{ spaces(first: 50) { edges { node { id name unreadCount lastMessage { id seq } } } } viewer { id unreadCount } }`
const CALLS = `query ($id: ID!) { run(id: $id) { status toolCalls { id waitsFor status approval { inputDigest } } } }`
const EVENTS = `subscription ($id: ID!) { spaceMessages(spaceId: $id) { __typename cursor
  ... on MessageFinished { message { id sender { id } } } } }`

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Uses the product as people do, over the public API, and records the durations. */
export function createHonestMember(
  { origin, honest, colleague, spaces, agents }: AttackWorld,
  controlPort: number,
): HonestMember {
  const [ada, bob] = [honest, colleague].map(({ token }) => createParleyClient({ origin, token }))
  if (ada === undefined || bob === undefined) throw new Error('two people take part')

  /** Returns the data of a response. @throws if the operation failed */
  async function ask(query: string, variables: object = {}, client = ada!): Promise<Json> {
    const late = sleep(ANSWERED_WITHIN_MS).then(() => {
      throw new Error(`no answer within ${ANSWERED_WITHIN_MS / 1000} s`)
    })
    const { status, data, errors } = await Promise.race([client.ask<Json>(query, variables), late])
    if (errors !== undefined || data == null) throw new Error(`HTTP ${status} ${JSON.stringify(errors)}`)
    return data
  }
  async function mutate(field: string, input: object, selection: string, client = ada!): Promise<Json> {
    const type = field.charAt(0).toUpperCase() + field.slice(1)
    const query = `mutation ($input: ${type}Input!) { result: ${field}(input: $input) { __typename ... on ${type}Payload { ${selection} } ... on Error { code message } } }`
    const { result } = await ask(query, { input }, client)
    if (result.__typename !== `${type}Payload`) throw new Error(`${field}: ${JSON.stringify(result)}`)
    return result
  }
  const send = (spaceId: string, text: string) =>
    mutate('sendMessage', { spaceId, text }, 'sentMessage { id seq } runs { id }')

  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const startedAt = performance.now()
    await work()
    return performance.now() - startedAt
  }

  /** Each action returns its duration in ms, without that of its preparation. */
  const OPERATIONS: Record<HonestOperation, () => Promise<number>> = {
    'ask who I am': () => timed(() => ask('{ viewer { id } }')),
    'read 50 messages': () => timed(() => ask(PAGE, { id: spaces.lobby })),
    // The space has no agents, because runs of the honest member would slow down the timed actions.
    'send a message': () => timed(() => send(spaces.desk, 'Just a word.')),
    async 'deny a call'() {
      const { runs } = await send(spaces.till, 'pay please')
      const call = await waitingCall(runs[0].id)
      const input = { toolCallId: call.id, approve: false, inputDigest: call.approval.inputDigest }
      return timed(() => mutate('decideToolCall', input, 'toolCall { status }'))
    },
    async 'leave a space'() {
      const membership = { spaceId: spaces.lobby, entityId: honest.id }
      const took = await timed(() => mutate('removeMember', membership, 'entityId'))
      await mutate('addMember', membership, 'space { id }', bob)
      return took
    },
    async 'stop a run'() {
      const { runs } = await send(spaces.till, 'pay please')
      await waitingCall(runs[0].id)
      return timed(() => mutate('stopRun', { runId: runs[0].id }, 'run { status }'))
    },
    subscribe: () =>
      timed(async () => {
        const events = ada.subscribe<Json, object>({ toString: () => EVENTS }, { id: spaces.quiet })
        const late = sleep(ANSWERED_WITHIN_MS).then(() => {
          throw new Error('no snapshot')
        })
        await Promise.race([events.first(() => true), late])
        events.stop()
      }),
    'get an answer from an agent': async () => {
      const events = ada.subscribe<Json, object>({ toString: () => EVENTS }, { id: spaces.quiet })
      await events.first(() => true)
      const late = sleep(ANSWERED_WITHIN_MS).then(() => {
        throw new Error('no answer of the agent')
      })
      const answer = events.first(({ spaceMessages }) => spaceMessages.message?.sender.id === agents.echo)
      const took = await timed(async () => {
        await send(spaces.quiet, 'Are you there?')
        await Promise.race([answer, late])
      })
      events.stop()
      return took
    },
  }

  async function waitingCall(runId: string): Promise<Json> {
    for (const until = performance.now() + ANSWERED_WITHIN_MS; performance.now() < until; await sleep(100)) {
      const { run } = await ask(CALLS, { id: runId })
      const waiting = run?.toolCalls.find(({ waitsFor }: Json) => waitsFor === 'DECISION')
      if (waiting !== undefined) return waiting
      if (['COMPLETED', 'FAILED', 'CANCELED'].includes(run?.status)) throw new Error(`the run ended ${run.status}`)
    }
    throw new Error('no call came to wait')
  }

  /** Actions in the lobby run one at a time, because leaving it removes the membership that reading it needs. */
  let lobby: Promise<unknown> = Promise.resolve()
  function inTurn(name: string, work: () => Promise<number>): Promise<number> {
    if (name !== 'leave a space' && name !== 'read 50 messages') return work()
    const turn = lobby.then(work)
    lobby = turn.catch(() => {})
    return turn
  }

  return {
    async work(seconds) {
      const took = Object.fromEntries(HONEST_OPERATIONS.map((name) => [name, []])) as unknown as Measured['took']
      const refused: string[] = []
      const control: number[] = []
      const beganAt = performance.now()
      const isOver = () => performance.now() - beganAt >= seconds * 1000
      async function repeat(name: string, everyMs: number, work: () => Promise<void>): Promise<void> {
        while (!isOver()) {
          await work().catch((error) => {
            const at = ((performance.now() - beganAt) / 1000).toFixed(1)
            refused.push(`"${name}" was not served after ${at} s: ${String(error?.message ?? error).slice(0, 300)}`)
          })
          await sleep(everyMs)
        }
      }
      const timedOnes = HONEST_OPERATIONS.map((name) =>
        repeat(name, EVERY_MS[name], async () => void took[name].push(await inTurn(name, OPERATIONS[name]))),
      )
      const hall = repeat('read the hall', UNTIMED_EVERY_MS['read the hall'], () => ask(PAGE, { id: spaces.hall }))
      const list = repeat('list my spaces', UNTIMED_EVERY_MS['list my spaces'], () => ask(LIST))
      const beside = repeat('the bare server', CONTROL_EVERY_MS, async () => {
        control.push(await timed(async () => (await fetch(`http://127.0.0.1:${controlPort}/`)).text()))
      })
      await Promise.all([...timedOnes, hall, list, beside])
      return { took, control, refused }
    },
    async close() {
      await Promise.all([ada.close(), bob.close()])
    },
  }
}
