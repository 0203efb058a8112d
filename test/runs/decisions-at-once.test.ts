import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BookedService, openService, refundTool } from '../support/decisions.ts'
import { enter, openStores } from '../support/far-stage.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { steps } from '../support/model-server-script.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { hasPostgres } from '../support/postgres.ts'
import type { Read } from '../support/stage.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const AGENTS = 10
const CALLS_EACH = 5
const PEOPLE = ['Alice', 'Bob', 'Carol', 'Dave']

describe.skipIf(!hasPostgres || !canStartRedis())('concurrent decisions', () => {
  let models: ModelServer
  let service: BookedService
  let stores: Awaited<ReturnType<typeof openStores>>
  const servers: ParleyProcess[] = []
  const entered: Awaited<ReturnType<typeof enter>>[] = []

  beforeAll(async () => {
    models = await startModelServer()
    service = await openService()
    stores = await openStores('postgres', models)
    for (const _ of ['one', 'two']) {
      const server = await startParley({ settings: stores.settings })
      servers.push(server)
      entered.push(await enter(server))
    }
  })
  afterAll(async () => {
    await Promise.all(entered.map(({ leave }) => leave()))
    await Promise.all(servers.map((server) => server.kill()))
    await stores?.dispose()
    await service?.close()
    await models?.close()
  })

  /** 50 calls of ten runs wait. Every second person uses the second server. */
  async function begin() {
    const [one, two] = entered as [(typeof entered)[0], (typeof entered)[0]]
    const { stage } = one
    const people = await Promise.all(PEOPLE.map((name) => stage.person(name)))
    const tools = [refundTool(service, { quorum: 1 })]
    const agents = await Promise.all(
      Array.from({ length: AGENTS }, (_, n) => stage.bot(`Agent ${n}`, { toolset: 'ACTIVE_SPACE', tools })),
    )
    const space = await stage.space('Team', [...people, ...agents], { routing: 'BROADCAST' })
    const calls = Array.from({ length: CALLS_EACH }, (_, amount) => ({ toolCall: 'refund', input: { amount } }))
    models.script(steps(calls, [{ text: 'Done.' }]))
    await stage.say(people[0]!, space, 'Give it back')
    const pending: Read[] = await until('50 calls wait', async () => {
      const found = await one.deciders.pendingOf(people[0]!)
      return found.length === AGENTS * CALLS_EACH && found
    })
    const seated = await Promise.all(people.map((person, n) => (n % 2 === 0 ? person : two.back(person))))
    return { pending: pending.map(({ id }) => id as string), seated, agents, one, two }
  }

  test('200 decisions on 50 calls from two processes: one outcome each, and an approved call is executed once', async () => {
    const { pending, seated, agents, one, two } = await begin()
    const decide = async (id: string, by: number, approve: boolean): Promise<string> => {
      const { deciders } = by % 2 === 0 ? one : two
      // On a slow machine, the server refuses decisions that would wait for more than 10 s, so try again.
      const decided = await until('the server has room', async () => {
        const answer = await deciders.decide(seated[by]!, id, approve)
        return answer.__typename !== 'RateLimitedError' && answer
      })
      return decided.toolCall?.approval.state ?? decided.__typename
    }
    const answers = await Promise.all(
      // The first decision on a call counts: some calls are approved and others denied.
      pending.flatMap((id, n) => seated.map(async (_, by) => ({ id, answer: await decide(id, by, (n + by) % 4 < 2) }))),
    )
    expect(answers).toHaveLength(200)
    const counted = answers.filter(({ answer }) => answer !== 'ConflictError')
    expect(counted.map(({ id }) => id).toSorted()).toEqual(pending.toSorted())
    expect(new Set(counted.map(({ answer }) => answer))).toEqual(new Set(['APPROVED', 'DENIED']))
    for (const agent of agents) expect(await one.stage.endedRuns(agent, 1)).toMatchObject([{ status: 'COMPLETED' }])
    const approved = counted.filter(({ answer }) => answer === 'APPROVED').map(({ id }) => id)
    expect(service.calls.map(({ key }) => key).toSorted()).toEqual(approved.toSorted())
    for (const id of pending) {
      const call = await two.deciders.callFor({ client: two.stage.admin }, id)
      const [status, state] = approved.includes(id) ? ['DONE', 'APPROVED'] : ['FAILED', 'DENIED']
      expect(call).toMatchObject({ status, approval: { state, decisions: [{ counts: true }] } })
    }
  })
})
