import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { sleep } from '../../src/lib/async.ts'
import { runsOf } from '../support/effort.ts'
import { steps } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { oneOf, type Random, randomOf } from '../support/random-documents.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

/** One minute in the long form. ATTACK_SECONDS sets any other duration; ATTACK_SEED repeats a run. */
const SECONDS = Number(process.env['ATTACK_SECONDS'] ?? runsOf({ usual: 5, nightly: 60 }))
const SEED = Number(process.env['ATTACK_SEED'] ?? Date.now() % 1_000_000)
const REQUESTS = 2000
const MALLORIES = 3
const ALPHABETS = ['a', '\n', '"', '\\', 'é', '漢', '😀', '> ', '_a*']

const SEND = `mutation ($spaceId: ID!, $text: String!) { result: sendMessage(input: { spaceId: $spaceId, text: $text }) {
  __typename ... on SendMessagePayload { runs { id } } ... on Error { message } } }`
const LEAVE = `mutation ($spaceId: ID!, $entityId: ID!) {
  result: removeMember(input: { spaceId: $spaceId, entityId: $entityId }) { __typename ... on Error { message } } }`
const DECIDE = `mutation ($input: DecideToolCallInput!) {
  result: decideToolCall(input: $input) { __typename ... on Error { message } ... on DecideToolCallPayload { toolCall { approval { inputDigest } } } } }`
const CLAIM = `mutation ($id: ID!, $release: Boolean!) {
  result: claimToolCall(input: { toolCallId: $id, release: $release }) { __typename ... on Error { message } } }`
const STOP = 'mutation ($id: ID!) { result: stopRun(input: { runId: $id }) { __typename ... on Error { message } } }'
const PENDING = '{ viewer { pendingToolCalls { id approval { inputDigest } run { id } } } }'

/** The selections of a subscriber for each event, in a light and a heavy form. */
const FIELDS = [
  '__typename cursor',
  '__typename ... on MessagePosted { message { id text sender { id name } } }',
  '__typename ... on MessagePosted { message { parts { __typename ... on TextPart { text } ... on ToolCallPart { toolCall { id input } } } } }',
  '__typename ... on MessagePosted { message { space { messages(last: 20) { edges { node { id text } } } } } }',
  '__typename ... on MessagePartChanged { part { ... on ToolCallPart { toolCall { input approval { decisions { reason } } } } } }',
  '__typename ... on SpaceSnapshot { space { messages(last: 50) { edges { node { id text } } } } } ... on MessageTextDelta { delta }',
]
const VIEWER =
  'subscription { viewerEvents { __typename ... on ViewerSpaceChanged { space { lastMessage { text } } } } }'

type Result = { __typename?: string; message?: string; [field: string]: unknown }

describe(`random activity of other members, with seed ${SEED}`, () => {
  let parley: TestServer
  const random = randomOf(SEED)

  beforeAll(async () => {
    parley = await startTestServer({
      stack: 'embedded',
      settings: {
        PARLEY_RATE_REQUESTS: String(REQUESTS),
        PARLEY_RATE_MESSAGES: '0',
        PARLEY_MAX_NEW_SPACES_PER_DAY: '0',
        PARLEY_TOOL_WAIT_SECONDS: '3000',
      },
      pacing: { burst: 2_000_000, perSecond: 500_000 },
    })
    parley.models.script(steps([{ toolCall: 'pay', input: { amount: 1 } }], [{ text: 'Done.' }]))
  })
  afterAll(() => parley?.close())

  const spaceOf = async (...memberIds: string[]) => {
    const input = { name: 'Room', routing: 'BROADCAST' as const, memberIds }
    return (await parley.app.domain.spaces.create(parley.admin, input)).id
  }
  const clientsOf = (viewer: HumanViewer, count: number) =>
    Promise.all(Array.from({ length: count }, () => parley.clientOf(viewer)))
  const textOf = (random: Random) => {
    const some = oneOf(random, ALPHABETS)
    return `x${some.repeat(Math.floor((random() * 31_998) / some.length))}`
  }

  /** Creates Bob, who must not be affected, and his spaces: one with Mallory, one without her, and some for leaving. */
  async function createWorld() {
    const bob = await parley.human('Bob')
    const carol = await parley.human('Carol')
    const mallories = await Promise.all(Array.from({ length: MALLORIES }, () => parley.human('Mallory')))
    const tool = { name: 'pay', description: 'Pays.', inputSchema: { type: 'object' }, execution: 'INTERNAL' }
    const approval = { quorum: 2, expiresInSeconds: 3000 }
    const agent = await parley.agent('Ada', { tools: [{ ...tool, approval }] as never })
    const ids = mallories.map(({ id }) => id)
    const common = await spaceOf(bob.id, agent.id, ...ids)
    const noisy = await Promise.all([spaceOf(bob.id, ...ids), spaceOf(bob.id, ...ids)])
    const elsewhere = await spaceOf(bob.id, carol.id)
    return { bob, mallories, common, noisy, elsewhere }
  }
  type World = Awaited<ReturnType<typeof createWorld>>

  /** Acts as a hostile member: performs random allowed actions as fast as the server responds, and continues after refusals. */
  async function attack(viewer: HumanViewer, { common, noisy }: World, random: Random, end: AbortSignal) {
    const [client, ...others] = await clientsOf(viewer, 3)
    const subscriptions: { stop(): void }[] = []
    const pending = async () => {
      const { data } = await client!.ask<{
        viewer: { pendingToolCalls: { id: string; approval: { inputDigest: string } | null }[] }
      }>(PENDING)
      return oneOf(random, data?.viewer.pendingToolCalls ?? [])
    }
    const deeds: (() => Promise<unknown>)[] = [
      () => client!.ask(SEND, { spaceId: oneOf(random, [common, ...noisy]), text: textOf(random) }),
      () => client!.ask(SEND, { spaceId: oneOf(random, noisy), text: textOf(random) }),
      async () => {
        const call = await pending()
        const input = { amount: random(), pad: 'y'.repeat(Math.floor(random() * 100_000)) }
        const { inputDigest } = call?.approval ?? {}
        if (call)
          await client!.ask(DECIDE, {
            input: { toolCallId: call.id, approve: true, reason: 'z'.repeat(2000), input, inputDigest },
          })
      },
      async () => {
        const call = await pending()
        if (call) await client!.ask(CLAIM, { id: call.id, release: random() < 0.5 })
      },
      async () => {
        const field = `spaceMessages(spaceId: "${oneOf(random, [common, ...noisy])}")`
        const text = `subscription M${Math.floor(random() * 1000)} { ${field} { ${oneOf(random, FIELDS)} } }`
        subscriptions.push(oneOf(random, others).subscribe({ toString: () => text } as never, {} as never))
        if (subscriptions.length > 20) subscriptions.shift()?.stop()
      },
    ]
    while (!end.aborted) await oneOf(random, deeds)().catch(() => {})
    for (const { stop } of subscriptions) stop()
  }

  /** Sends an operation as Bob. @throws if the response is a refusal */
  async function asked(client: ParleyClient, text: string, variables: object = {}): Promise<Result> {
    const { status, data, errors } = await client.ask<{ result?: Result }>(text, variables)
    if (status !== 200 || errors !== undefined)
      throw new Error(`${text} was refused: ${status} ${JSON.stringify(errors)}`)
    return data?.result ?? {}
  }

  test('causes no refusal for a bystander and is not charged to them', {
    timeout: SECONDS * 1000 + 120_000,
  }, async () => {
    const world = await createWorld()
    const { bob, mallories, common, noisy, elsewhere } = world
    const [client, ...sockets] = await clientsOf(bob, 4)
    const remaining = async () =>
      (await parley.app.domain.rates.of(bob)).find(({ name }) => name === 'requests')?.remaining ?? REQUESTS
    const end = new AbortController()
    const attacks = mallories.map((mallory, n) => attack(mallory, world, randomOf(SEED + n + 1), end.signal))
    const own = { events: 0 }
    const subscribe = (text: string) =>
      sockets.length > 0 &&
      oneOf(random, sockets).subscribe({ toString: () => text } as never, {} as never, () => {
        own.events += 1
      })
    for (const spaceId of [common, ...noisy])
      for (const fields of FIELDS) subscribe(`subscription { spaceMessages(spaceId: "${spaceId}") { ${fields} } }`)
    subscribe(VIEWER)
    await until('he gets events of the hostile members', () => own.events > 50)

    const idle = await remaining()
    await sleep(2000)
    // A new minute of the rate limit may have begun.
    expect(await remaining()).toBeGreaterThanOrEqual(idle)

    const deadline = Date.now() + SECONDS * 1000
    const done = { queries: 0, messages: 0, left: 0, denied: 0, stopped: 0 }
    while (Date.now() < deadline) {
      await asked(client!, '{ result: viewer { __typename } }')
      done.queries += 1
      expect((await asked(client!, SEND, { spaceId: elsewhere, text: 'hello' })).__typename).toBe('SendMessagePayload')
      done.messages += 1
      const spaceId = await spaceOf(bob.id, mallories[0]!.id)
      expect((await asked(client!, LEAVE, { spaceId, entityId: bob.id })).__typename).toBe('RemoveMemberPayload')
      done.left += 1
      const call = await waitingCall(client!, common)
      const denial = await asked(client!, DECIDE, { input: { toolCallId: call.id, approve: false } })
      expect(denial).toMatchObject({ __typename: 'DecideToolCallPayload' })
      done.denied += 1
      const other = await waitingCall(client!, common)
      expect((await asked(client!, STOP, { id: other.run.id })).__typename).toBe('StopRunPayload')
      done.stopped += 1
      await sleep(random() * 200)
    }
    end.abort()
    await Promise.all(attacks)
    expect(Math.min(...Object.values(done))).toBeGreaterThan(0)
  })

  /** A waiting call in Bob's own run. */
  async function waitingCall(client: ParleyClient, spaceId: string) {
    const { runs = [] } = (await asked(client, SEND, { spaceId, text: 'pay, please' })) as { runs?: { id: string }[] }
    const [run] = runs
    if (run === undefined) throw new Error('his message started no run')
    return until('a call waits', async () => {
      const calls = await parley.app.platform.db.prisma.toolCall.findMany({ where: { runId: run.id } })
      const [call] = calls.filter(({ approvalState }) => approvalState === 'PENDING')
      return call && { id: call.id, run }
    })
  }
})
