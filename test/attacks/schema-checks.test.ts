import { Worker } from 'node:worker_threads'
import { describe, expect, test, vi } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions } from '../support/decisions.ts'
import { steps } from '../support/model-server-script.ts'
import { callsOf } from '../support/space-tools.ts'
import type { Read } from '../support/stage.ts'

/** Comparing a few thousand items in pairs takes more than half a second. */
const UNIQUE = {
  type: 'object',
  properties: { items: { type: 'array', uniqueItems: true, items: { type: 'object' } } },
}
const items = (count: number) => ({ items: Array.from({ length: count }, (_, n) => ({ a: { b: n } })) })
const SLOW = items(9_000)

describe.each(RULE_STACKS)('input checks against slow schemas, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  const order = (approval?: object) => ({
    name: 'order',
    description: 'Orders.',
    inputSchema: UNIQUE,
    execution: 'INTERNAL',
    ...(approval === undefined ? {} : { approval }),
  })
  const asksFor = (input: object) => [{ toolCall: 'order', input }]

  /** Returns the result of a call that another human's agent makes at the same time. */
  async function elsewhere(input: object): Promise<Read> {
    const person = await play.stage.person('Dora')
    const agent = await play.stage.bot('Free', { toolset: 'ACTIVE_SPACE', tools: [order()] })
    const space = await play.stage.space('Desk', [person, agent], { routing: 'BROADCAST' })
    play.parley.models.script(steps(asksFor(input), [{ text: 'Done.' }]))
    const { runs } = await play.stage.say(person, space, 'Go')
    const run = await play.parley.runWhen(runs[0].id)
    return (await callsOf(play.parley, run.id))[0]
  }

  test('do not run for a viewer who may not decide, for any input', async () => {
    const { alice, bob, runId } = await play.room([order({ approverIds: ['@alice'] })], asksFor(items(1)))
    const call = await play.deciders.asked(alice)
    const forbidden = { __typename: 'ForbiddenError' }
    for (const input of [SLOW, { items: 'none' }, items(1)])
      expect(await play.deciders.decide(bob, call.id, true, { input })).toMatchObject(forbidden)
    expect(await play.deciders.decide(bob, call.id, true, { reason: 'x'.repeat(3000) })).toMatchObject(forbidden)
    expect(await play.deciders.decide(alice, call.id, true, { input: items(2) })).toMatchObject({
      __typename: 'DecideToolCallPayload',
    })
    await play.parley.runWhen(runId!)
  })

  test('checks that take too long pause for the author of the schema, not for the person who answers', async () => {
    const { alice, runId } = await play.room([order({ approverIds: ['@alice'] })], asksFor(items(1)))
    const call = await play.deciders.asked(alice)
    const tooLong = { __typename: 'BadInputError', message: expect.stringContaining('took too long') }
    expect(await play.deciders.decide(alice, call.id, true, { input: SLOW })).toMatchObject(tooLong)
    expect(await play.deciders.decide(alice, call.id, true, { input: items(8_000) })).toMatchObject(tooLong)
    expect(await elsewhere(items(1))).toMatchObject({ status: 'DONE' })
    const small = await play.deciders.decide(alice, call.id, true, { input: items(3) })
    expect(small).toMatchObject({ __typename: 'DecideToolCallPayload' })
    await play.parley.runWhen(runId!)
    const done = await play.deciders.callFor({ client: play.stage.admin }, call.id)
    expect(done).toMatchObject({ status: 'DONE', output: items(3) })
  })

  test('are not repeated for an input that was checked when it was approved', async () => {
    const { alice, runId } = await play.room([order({ approverIds: ['@alice'] })], asksFor(items(1)))
    const call = await play.deciders.asked(alice)
    const input = { items: [{ approved: call.id }] }
    const posted = vi.spyOn(Worker.prototype, 'postMessage')
    expect(await play.deciders.decide(alice, call.id, true, { input })).toMatchObject({
      __typename: 'DecideToolCallPayload',
    })
    await play.parley.runWhen(runId!)
    expect(await play.deciders.callFor({ client: play.stage.admin }, call.id)).toMatchObject({
      status: 'DONE',
      output: input,
    })
    const checks = posted.mock.calls.filter(([message]) => JSON.stringify(message)?.includes(call.id))
    expect(checks).toHaveLength(1)
  })

  test('of results pause for the author too: others can submit valid results', async () => {
    const { name, description } = order()
    const form = { name, description, inputSchema: { type: 'object' }, execution: 'SPACE', resultSchema: UNIQUE }
    const { alice, bob, eve, runId } = await play.room([form], asksFor({}))
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const [call] = await play.deciders.pendingOf(alice)
    expect(await play.deciders.submit(eve, call.id, SLOW)).toMatchObject({ __typename: 'NotFoundError' })
    const tooLong = { __typename: 'BadInputError', message: expect.stringContaining('took too long') }
    expect(await play.deciders.submit(alice, call.id, SLOW)).toMatchObject(tooLong)
    expect(await play.deciders.submit(bob, call.id, { items: 'none' })).toMatchObject({
      __typename: 'BadInputError',
      message: expect.stringContaining('items must be array'),
    })
    expect(await play.deciders.submit(bob, call.id, items(2))).toMatchObject({ __typename: 'SubmitToolResultPayload' })
    await play.parley.runWhen(runId!)
  })

  test('checks of one approver are answered or refused, and delay another human by at most one check', async () => {
    const { alice, runId } = await play.room([order({ approverIds: ['@alice'] })], asksFor(items(1)))
    const call = await play.deciders.asked(alice)
    // Each input is checked and is invalid, so nothing is decided.
    const wrong = (n: number) => ({ ...items(2_000), items: [...items(2_000).items, n] })
    const asked = Array.from({ length: 40 }, (_, n) => play.deciders.decide(alice, call.id, true, { input: wrong(n) }))
    let answered = 0
    for (const one of asked) void one.then(() => (answered += 1))
    expect(await elsewhere(items(1))).toMatchObject({ status: 'DONE' })
    expect(answered).toBeLessThan(asked.length)
    // A person gets a RateLimitedError if their queue takes longer than 10 s.
    const types = (await Promise.all(asked)).map(({ __typename }) => __typename)
    expect(types.filter((type) => type !== 'RateLimitedError' && type !== 'BadInputError')).toEqual([])
    expect(types).toContain('BadInputError')
    await play.deciders.decide(alice, call.id, true)
    await play.parley.runWhen(runId!)
  })
})
