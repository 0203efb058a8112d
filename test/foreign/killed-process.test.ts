import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { mutate, STACKS, say } from '../e2e/deployed.ts'
import { type A2aServer, startA2aServer } from '../support/a2a-server.ts'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { startThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const MESSAGES = `query ($id: ID!) { space(id: $id) { messages(first: 20) { edges { node { id status text } } } } }`

interface Shown {
  space: { messages: { edges: { node: { id: string; status: string; text: string } }[] } }
}

describe.each(STACKS)(
  'a process that is killed in the middle of an answer from another server, on the %s stack',
  (stack) => {
    let remote: A2aServer
    let ended: (() => Promise<unknown>)[]

    beforeEach(async () => {
      ended = []
      remote = await startA2aServer()
      ended.push(() => remote.close())
    })
    afterEach(async () => {
      for (const end of ended.toReversed()) await end()
    })

    async function settingsOf(): Promise<Record<string, string>> {
      const own = { PARLEY_ALLOW_PRIVATE_TOOLS: 'true', PARLEY_LOG_LEVEL: 'fatal' }
      if (stack === 'embedded') {
        const folder = await mkdtemp(path.join(tmpdir(), 'parley-killed-'))
        ended.push(() => rm(folder, { recursive: true, force: true }))
        return { ...own, DATA_DIR: folder }
      }
      const [redis, database] = [await startThrowawayRedis(), await createTestDatabase()]
      ended.push(
        () => redis.dispose(),
        () => database.drop(),
      )
      return { ...own, DATABASE_URL: database.url, REDIS_URL: redis.url }
    }

    /** Starts the process that executes runs, and clients of it. */
    async function start(settings: Record<string, string>): Promise<ParleyProcess> {
      const parley = await startParley({ settings })
      ended.push(() => parley.kill())
      return parley
    }

    function connect({ origin }: ParleyProcess, token: string): ParleyClient {
      const client = createParleyClient({ origin, token })
      ended.push(() => client.close())
      return client
    }

    /** Creates a room with an agent of the remote server. */
    async function room(first: ParleyProcess, toolset: string) {
      const admin = connect(first, first.adminToken)
      const { id: humanId } = await mutate(
        admin,
        'createHuman(input: { name: "Ada" })',
        'CreateHumanPayload { human { id } }',
      )
      const grant = `createAccessToken(input: { grant: { humanId: "${humanId}" } })`
      const { secret } = await mutate(admin, grant, 'CreateAccessTokenPayload { secret }')
      const input = `name: "Poet", instructions: "Write.", model: "a2a:${remote.cardUrl}", toolset: ${toolset}, addableBy: EVERYONE`
      const agent = await mutate(admin, `createAgent(input: { ${input} })`, 'CreateAgentPayload { agent { id } }')
      const ada = connect(first, secret)
      const space = await mutate(
        ada,
        `createSpace(input: { name: "Room", routing: BROADCAST, memberIds: ["${agent.id}"] })`,
        'CreateSpacePayload { space { id } }',
      )
      const read = async (client: ParleyClient) => {
        const { data } = await client.ask<Shown>(MESSAGES, { id: space.id })
        return (data?.space.messages.edges ?? []).map(({ node }) => node)
      }
      return { secret, ada, spaceId: space.id, read }
    }
    const count = (method: string) => remote.methods().filter((one) => one === method).length

    test.each(['ACTIVE_SPACE', 'SPACE_TOOLS'])(
      'the next one continues the message, with the toolset %s',
      async (toolset) => {
        const settings = await settingsOf()
        const first = await start(settings)
        const { secret, ada, spaceId, read } = await room(first, toolset)
        remote.onMessage = () => undefined
        await say(ada, spaceId, 'A poem')
        const task = await until('the agent got the message', () => remote.tasks[0])
        const follows = () => count('SubscribeToTask')
        await until('the task is followed', () => follows() === 1)
        remote.say(task, 'Roses are ')
        const before = await until('the beginning is shown', async () => {
          const [, answer] = await read(ada)
          return answer?.text === 'Roses are ' && answer
        })
        await first.kill()
        remote.replace(task, 'Roses were red')

        const second = await start(settings)
        const client = connect(second, secret)
        await until('the task is followed again', () => follows() === 2)
        remote.say(task, ', once.')
        remote.end(task, 'COMPLETED')
        await until(
          'the answer is complete',
          async () => (await read(client)).at(-1)?.status === 'COMPLETE' && (await read(client)).length > 1,
        )
        expect((await read(client)).map(({ id, status, text }) => [id, status, text])).toEqual([
          [expect.any(String), 'COMPLETE', 'A poem'],
          [before.id, 'COMPLETE', 'Roses were red, once.'],
        ])
        expect(count('SendMessage')).toBe(1)
      },
      120_000,
    )

    const RUNS = '{ runs(first: 1) { edges { node { status error } } } }'
    interface Runs {
      runs: { edges: { node: { status: string; error: string | null } }[] }
    }

    test.each([
      {
        promises: 'nothing',
        sent: 1,
        status: 'FAILED',
        error: /It is unknown whether the agent has received the message/,
      },
      { promises: 'that a message takes effect once', sent: 2, status: 'COMPLETED', error: null },
    ])(
      'gets no second answer from a server that lists no tasks and promises $promises',
      async ({ sent, status, error }) => {
        remote.lists = false
        remote.deduplicates = sent > 1
        if (remote.deduplicates) {
          const extensions = [{ uri: 'urn:parley:a2a:message-once' }]
          remote.card = { capabilities: { streaming: true, extensions } }
        }
        const settings = await settingsOf()
        const first = await start(settings)
        const { secret, ada, spaceId, read } = await room(first, 'ACTIVE_SPACE')
        const { promise: held, resolve: release } = Promise.withResolvers<void>()
        remote.held = held
        await say(ada, spaceId, 'A poem')
        await until('the agent got the message, and its response is on its way', () => remote.tasks.length === 1)
        await first.kill()
        release()

        const second = await start(settings)
        const admin = connect(second, second.adminToken)
        const run = await until('the run has ended', async () => {
          const { data } = await admin.ask<Runs>(RUNS)
          const node = data?.runs.edges[0]?.node
          return node !== undefined && ['COMPLETED', 'FAILED'].includes(node.status) && node
        })
        expect(run.status).toBe(status)
        if (error !== null) expect(run.error).toMatch(error)
        expect([remote.tasks.length, count('SendMessage')]).toEqual([1, sent])
        const messageIds = remote.requests.flatMap(({ method, params }) =>
          method === 'SendMessage' ? [(params['message'] as { messageId: string }).messageId] : [],
        )
        expect(new Set(messageIds).size).toBe(1)
        const texts = (await read(connect(second, secret))).map(({ text }) => text)
        expect(texts).toEqual(status === 'FAILED' ? ['A poem'] : ['A poem', 'You said: A poem'])
      },
      120_000,
    )
  },
)
