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
  'a process that is killed in the middle of an answer of another server, on the %s stack',
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

    /** Starts the process that executes runs, and with it clients. */
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

    test.each(['ACTIVE_SPACE', 'SPACE_TOOLS'])(
      'the next one continues the message, with the toolset %s',
      async (toolset) => {
        const settings = await settingsOf()
        const first = await start(settings)
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
        remote.onMessage = () => undefined
        await say(ada, space.id, 'A poem')
        const task = await until('the agent got the message', () => remote.tasks[0])
        const follows = () => remote.methods().filter((method) => method === 'SubscribeToTask').length
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
        expect(remote.methods().filter((method) => method === 'SendMessage')).toHaveLength(1)
      },
      120_000,
    )
  },
)
