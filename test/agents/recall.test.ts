import type { ModelMessage } from 'ai'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createConsciousnessReading } from '../../src/agents/consciousness.ts'
import { createRecalling, type Recall, type Recalled } from '../../src/agents/recall.ts'
import { createMindControl } from '../../src/flows/mind-control.ts'
import { newId } from '../../src/lib/ids.ts'
import { estimateTokens } from '../../src/lib/token-estimate.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'
import { imbalanceOf } from '../support/thinking.ts'

/** Returns a cycle of about this many tokens: an inbox message, a call with its result, and a closing text. */
function cycleOf(index: number, tokens: number): ModelMessage[] {
  const id = `tcl_${index}`
  return [
    { role: 'user', content: `INBOX (1 event, now):\n- [SERVICE s] ${index}` },
    { role: 'assistant', content: [{ type: 'tool-call', toolCallId: id, toolName: 'look', input: {} }] },
    {
      role: 'tool',
      content: [
        {
          type: 'tool-result',
          toolCallId: id,
          toolName: 'look',
          output: { type: 'text', value: 'word '.repeat(tokens) },
        },
      ],
    },
    { role: 'assistant', content: [{ type: 'text', text: `Closing ${index}.` }] },
  ]
}

describe.skipIf(!hasPostgres)('the part of the consciousness that a prompt includes', () => {
  let domain: Domain
  let recalling: ReturnType<typeof createRecalling>

  beforeAll(async () => {
    domain = await openDomain()
    recalling = createRecalling(domain.platform)
  })
  afterAll(() => domain?.close())

  const db = () => domain.platform.db.prisma

  /** Appends a cycle as the end of a run does. */
  async function think(agentId: string, tokens: number, recall: Recall | null): Promise<number> {
    const run = await domain.run(agentId, { triggerType: 'INBOX', state: { recall: recall as object | null } })
    const { cycleCount } = await db().agent.update({ where: { id: agentId }, data: { cycleCount: { increment: 1 } } })
    const index = cycleCount - 1
    const messages = cycleOf(index, tokens)
    const tokenEstimate = estimateTokens(messages)
    const summary = `I did ${index}.`
    await db().cycle.create({
      data: { agentId, index, runId: run.id, messages: messages as object[], summary, tokenEstimate },
    })
    return tokenEstimate
  }

  const within = (budget: number, leastWhole: number, tokens = budget) => ({
    budget,
    mostWhole: budget,
    allowed: { tokens, leastWhole },
  })
  const inboxesIn = ({ messages }: Recalled) =>
    messages.filter(({ role, content }) => role === 'user' && String(content).startsWith('INBOX')).length

  test('no more cycles are read than fit, even with many cycles and raised limits', async () => {
    const agent = await domain.agent('Ada', { mind: 'PERSISTENT' })
    await db().$executeRaw`INSERT INTO "Cycle" ("agentId", index, "runId", messages, summary, "tokenEstimate")
      SELECT ${agent.id}, n, 'run_none', '[]', 'I did.', 5 FROM generate_series(0, 7999) n`
    await db().agent.update({ where: { id: agent.id }, data: { cycleCount: 8000 } })
    await think(agent.id, 50, { summed: 7900, whole: 7990, end: 8000, allowed: { tokens: 1000, leastWhole: 1 } })
    const { cycle } = db()
    const { findMany } = cycle
    let rows = 0
    const counting = (async (...args: never[]) => {
      const found = await (findMany as (...given: never[]) => Promise<unknown[]>).apply(cycle, args)
      rows += found.length
      return found
    }) as never
    const prisma = new Proxy(db(), {
      get: (target, name) => (name === 'cycle' ? { findMany: counting } : Reflect.get(target, name, target)),
    })
    const counted = createRecalling({ db: { ...domain.platform.db, prisma } })
    const { recall } = await counted.choose(agent.id, within(100_000, 10))
    expect(recall.end).toBe(8001)
    expect(rows).toBeLessThan(7000)
  })

  test('includes everything, while it fits', async () => {
    const agent = await domain.agent('Ada', { mind: 'PERSISTENT' })
    for (let n = 0; n < 5; n++) await think(agent.id, 50, null)
    const recalled = await recalling.choose(agent.id, within(100_000, 10))
    expect(recalled.messages).toEqual(Array.from({ length: 5 }, (_, n) => cycleOf(n, 50)).flat())
    expect(recalled.recall).toMatchObject({ summed: 0, whole: 0, end: 5 })
  })

  test('has, beyond the budget, one message with summaries of earlier cycles, then the last cycles in full', async () => {
    const agent = await domain.agent('Ada', { mind: 'PERSISTENT' })
    for (let n = 0; n < 10; n++) await think(agent.id, 100, null)
    const { messages, recall, tokens } = await recalling.choose(agent.id, within(900, 2))
    expect(
      String(messages[0]?.content)
        .split('\n')
        .slice(1)
        .map((line) => line.replace(/\(.*?\)/, '(…)')),
    ).toEqual(Array.from({ length: recall.whole }, (_, n) => `- ${n + 1} (…): I did ${n}.`))
    expect(messages.slice(1)).toEqual(
      Array.from({ length: 10 - recall.whole }, (_, n) => cycleOf(recall.whole + n, 100)).flat(),
    )
    expect(recall.whole).toBeGreaterThan(0)
    expect(tokens).toBeLessThanOrEqual(900)
  })

  test("between two compactions the start stays the same, for the provider's cache", async () => {
    const agent = await domain.agent('Ada', { mind: 'PERSISTENT' })
    let previous: Recalled | null = null
    let compactions = 0
    for (let n = 0; n < 40; n++) {
      const recalled: Recalled = await recalling.choose(agent.id, within(2000, 2))
      if (previous !== null && recalled.recall.whole === previous.recall.whole) {
        expect(recalled.messages.slice(0, previous.messages.length)).toEqual(previous.messages)
      } else compactions += 1
      await think(agent.id, 60, recalled.recall)
      previous = recalled
    }
    expect(compactions).toBeGreaterThan(1)
    expect(compactions).toBeLessThan(12)
  })

  test('an agent with a higher budget gets omitted cycles back; with an unchanged budget, the start stays the same', async () => {
    const agent = await domain.agent('Ada', { mind: 'PERSISTENT' })
    for (let n = 0; n < 6; n++) await think(agent.id, 100, null)
    const less = await recalling.choose(agent.id, within(200, 1))
    expect(inboxesIn(less)).toBe(1)
    await think(agent.id, 100, less.recall)
    const same = await recalling.choose(agent.id, within(10_000, 1, 200))
    expect(inboxesIn(same)).toBe(2)
    await think(agent.id, 100, same.recall)
    const more = await recalling.choose(agent.id, within(10_000, 1))
    expect(more.messages).toEqual(Array.from({ length: 8 }, (_, n) => cycleOf(n, 100)).flat())
    expect(inboxesIn(await recalling.choose(agent.id, within(600, 3, 200)))).toBe(3)
  })

  test('a reset hides earlier cycles and keeps them on record', async () => {
    const agent = await domain.agent('Ada', { mind: 'PERSISTENT' })
    const reading = createConsciousnessReading(domain.platform)
    for (let n = 0; n < 3; n++) await think(agent.id, 50, null)
    const before = await recalling.choose(agent.id, within(10_000, 10))
    await createMindControl(domain.platform).resetConsciousness(domain.admin, { agentId: agent.id })
    expect((await recalling.choose(agent.id, within(10_000, 10))).messages).toEqual([])
    expect(await reading.getMany([agent.id])).toEqual([
      { agentId: agent.id, messages: [], cycleCount: 0, tokenEstimate: 0, lastCycleAt: null },
    ])
    await think(agent.id, 50, before.recall)
    expect((await recalling.choose(agent.id, within(10_000, 10))).messages).toEqual(cycleOf(3, 50))
    expect(await reading.getMany([agent.id])).toMatchObject([{ cycleCount: 1, messages: cycleOf(3, 50) }])
    expect(await recalling.again(agent.id, before.recall)).toEqual(before.messages)
  })

  test('the original stays readable, although only a part of it is sent', async () => {
    const agent = await domain.agent('Ada', { mind: 'PERSISTENT' })
    for (let n = 0; n < 6; n++) await think(agent.id, 200, (await recalling.choose(agent.id, within(300, 1))).recall)
    const [consciousness] = await createConsciousnessReading(domain.platform).getMany([agent.id])
    expect(consciousness?.messages).toEqual(Array.from({ length: 6 }, (_, n) => cycleOf(n, 200)).flat())
  })

  test('for any cycles and budget: never too much, newest cycles first, balanced, and repeatable', async () => {
    const cycles = fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 14 })
    const scenario = fc.record({
      cycles,
      mostWhole: fc.integer({ min: 0, max: 3000 }),
      taken: fc.integer({ min: 0, max: 3000 }),
      leastWhole: fc.integer({ min: 0, max: 6 }),
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ cycles, mostWhole, taken, leastWhole }) => {
        const budget = Math.max(0, mostWhole - taken)
        const agent = await domain.agent(`Ada ${newId('agt')}`, { mind: 'PERSISTENT' })
        const sizes: number[] = []
        let recall: Recall | null = null
        for (const tokens of cycles) {
          sizes.push(await think(agent.id, tokens, recall))
          const recalled: Recalled = await recalling.choose(agent.id, {
            ...within(budget, leastWhole),
            mostWhole,
          })
          recall = recalled.recall
          const whole = inboxesIn(recalled)
          const recent = sizes.slice(-leastWhole || sizes.length + 1).reduce((sum, size) => sum + size, 0)
          expect(recalled.tokens).toBeLessThanOrEqual(whole > leastWhole ? budget : Math.max(budget, mostWhole))
          expect(whole).toBe(recall.end - recall.whole)
          expect(imbalanceOf(recalled.messages)).toBeNull()
          if (recent <= mostWhole) expect(whole).toBeGreaterThanOrEqual(Math.min(leastWhole, sizes.length))
          expect(await recalling.again(agent.id, recall)).toEqual(recalled.messages)
        }
      }),
      { numRuns: 25 },
    )
  })
})
