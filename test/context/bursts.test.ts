import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { inboxIn, type Thinking, thinkingOn } from '../support/thinking.ts'

// Longer than the default timeout, because a hundred messages take long on a busy machine.
const REST_MS = 2000

describe.each(RULE_STACKS)('a burst of events, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking

  beforeAll(async () => {
    parley = await startApplication({ stack, settings: { PARLEY_CYCLE_REST_MS: String(REST_MS) } })
    thinking = thinkingOn(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test('100 messages cause at most 10 cycles, the first of which starts at once, and each message is read once and in order', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const space = await parley.space(human, [agent.id])
    parley.models.script(() => [{ text: 'Read.' }])
    const texts = Array.from({ length: 100 }, (_, n) => `Message ${n}.`)
    for (const text of texts) await parley.send(human, space.id, text)
    await thinking.rest(agent)
    const read = parley.models.requests.flatMap((request) => inboxIn(request).match(/Message \d+\./g) ?? [])
    expect(read).toEqual(texts)
    expect(parley.models.requests.length).toBeLessThanOrEqual(10)
    const runs = await thinking.runsOf(agent)
    const [event] = await thinking.inboxOf(agent)
    // The embedded database has one connection, which the burst uses, so the duration depends on the machine.
    const waitedMs = (runs[0]?.startedAt?.getTime() ?? 0) - (event?.createdAt.getTime() ?? 0)
    if (stack === 'postgres') expect(waitedMs).toBeLessThan(REST_MS - 10)
    for (const [index, { startedAt }] of runs.entries()) {
      const before = runs[index - 1]?.finishedAt?.getTime() ?? 0
      expect((startedAt?.getTime() ?? 0) - before).toBeGreaterThanOrEqual(REST_MS - 10)
    }
  })

  test('urgent events come first, and skip the pause between cycles', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const space = await parley.space(human, [agent.id])
    const held = Promise.withResolvers<void>()
    parley.models.script((request) =>
      inboxIn(request).includes('"One"') ? [{ gate: held.promise }, { text: 'Read.' }] : [{ text: 'Read.' }],
    )
    await parley.send(human, space.id, 'One')
    await thinking.cycleUnderWay(agent)
    await parley.send(human, space.id, 'Two')
    const input = { agentId: agent.id, payload: { alarm: true }, serviceName: 'watch', urgent: true }
    await parley.app.domain.control.triggerAgent(parley.admin, input)
    held.resolve()
    await thinking.rest(agent)
    const [, second] = parley.models.requests
    expect(second === undefined ? '' : inboxIn(second)).toMatch(/SERVICE watch.*\n.*"Two"/)
    const [before, after] = await thinking.runsOf(agent)
    expect((after?.startedAt?.getTime() ?? 0) - (before?.finishedAt?.getTime() ?? 0)).toBeLessThan(REST_MS - 10)
  })
})
