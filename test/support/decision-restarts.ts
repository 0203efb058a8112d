import { expect } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { openService, refund, refundTool } from './decisions.ts'
import { enter } from './far-stage.ts'
import type { ModelServer } from './model-server.ts'
import { forAgent, type ModelAction, steps } from './model-server-script.ts'
import { type Read, resultsIn } from './stage.ts'
import { inboxIn } from './thinking.ts'
import { until } from './until.ts'

/** A server that can be stopped in different ways, and started again on the same stores. */
export interface Restarting {
  start(): Promise<{ origin: string; adminToken: string; end(): Promise<void> }>
  models: ModelServer
}

/** After 10 s, another worker claims the runs of a dead one. */
const TAKEN_OVER_WITHIN = { timeoutMs: 60_000 }
/**
 * A stateless run and a persistent agent request approvals. The server ends between two approvals, during the tool calls, and
 * before a result.
 */
export async function decideOverRestarts({ start, models }: Restarting): Promise<void> {
  const service = await openService()
  let server = await start()
  let now = await enter(server)
  const again = async () => {
    await now.leave()
    await server.end()
    server = await start()
    now = await enter(server)
  }
  let [alice, bob] = [await now.stage.person('Alice'), await now.stage.person('Bob')]
  const ask = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE', approval: {} }
  const ada = { toolset: 'ACTIVE_SPACE', tools: [refundTool(service, { quorum: 2 }), ask] }
  const eva = { toolset: 'ACTIVE_SPACE', mind: 'PERSISTENT', tools: [refundTool(service, {})] }
  const agents = [await now.stage.bot('Ada', ada), await now.stage.bot('Eva', eva)]
  const spaces: Read[] = []
  for (const agent of agents)
    spaces.push(await now.stage.space(`With ${agent.name}`, [alice, bob, agent], { routing: 'BROADCAST' }))
  models.script(forAgent('Ada', steps([refund(1), { toolCall: 'ask', input: {} }], [{ text: 'Done.' }])))
  models.script(
    forAgent('Eva', (request) => (inboxIn(request).includes('TOOL_RESULT') ? heard : evas(spaces[1])(request))),
  )
  for (const space of spaces) await now.stage.say(alice, space, 'Give it back')

  const calls: Read[] = await until('three wait', async () => {
    const pending = await now.deciders.pendingOf(alice)
    return pending.length === 3 && pending
  })
  const callOf = (toolName: string, amount?: number) =>
    calls.find((call) => call.toolName === toolName && (amount === undefined || call.input.amount === amount))
  const [adas, asks, evasCall] = [callOf('refund', 1), callOf('ask'), callOf('refund', 5)]
  const runId = adas.run.id
  await now.deciders.decide(alice, adas.id, true, { inputDigest: adas.approval.inputDigest })
  await now.deciders.claim(bob, adas.id)

  await again()
  ;[alice, bob] = [await now.back(alice), await now.back(bob)]
  const standing = await now.deciders.callFor(bob, adas.id)
  expect(standing).toMatchObject({
    status: 'WAITING',
    claimedBy: { id: bob.id },
    approval: { state: 'PENDING', mayDecide: true },
  })
  expect(standing.approval.decisions).toMatchObject([{ human: { id: alice.id }, counts: true }])
  expect((await now.deciders.pendingOf(bob)).map(({ id }) => id)).toEqual(calls.map(({ id }) => id))
  const held = createDeferred()
  service.hold = held.promise
  await now.deciders.decide(bob, adas.id, true)
  await now.deciders.decide(bob, evasCall.id, true)
  await until('both tools are called', () => service.calls.length === 2)

  await again()
  held.resolve()
  for (const { id } of [adas, evasCall])
    await until(
      'the run has continued',
      async () => (await now.deciders.callFor({ client: now.stage.admin }, id)).status === 'DONE',
      TAKEN_OVER_WITHIN,
    )
  expect(new Set(service.calls.map(({ key, input }) => `${key} ${input.amount}`))).toEqual(
    new Set([`${adas.id} 1`, `${evasCall.id} 5`]),
  )
  expect(service.calls.length).toBeGreaterThan(2)
  alice = await now.back(alice)
  await now.deciders.decide(alice, asks.id, true)

  await again()
  bob = await now.back(bob)
  await now.deciders.submit(bob, asks.id, { fine: true })
  const done = `{ run(id: "${runId}") { status } }`
  await until('the run has ended', async () => (await now.stage.ask(bob.client, done)).status === 'COMPLETED')
  const told = await models.request(({ step, instructions }) => step === 1 && instructions.includes('You are Ada'))
  expect(resultsIn(told)).toEqual([{ booked: { amount: 1 } }, { fine: true }])
  const heardOf = await models.request((request) => inboxIn(request).includes('TOOL_RESULT'))
  expect(inboxIn(heardOf)).toContain(`- [TOOL_RESULT refund (id: ${evasCall.id})] {"booked":{"amount":5}}`)
  await now.leave()
  await server.end()
  await service.close()
}

const heard: ModelAction[] = [{ text: 'I have heard.' }]
const evas = (space: Read) => steps([{ toolCall: 'enter_space', input: { spaceId: space.id } }, refund(5)], heard)
