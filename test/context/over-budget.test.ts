import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createCore } from '../../src/app/core.ts'
import { UNMARKED } from '../../src/confidentiality/marks.ts'
import { createCycles } from '../../src/context/cycle.ts'
import { newId } from '../../src/lib/ids.ts'
import { insertEvents } from '../../src/stores/inbox-store.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'

describe.each(RULE_STACKS)('a turn in a chain when no budget is left for a cycle, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack, worker: false })
  })
  afterAll(() => parley?.close())

  /** Gives Bob a turn in a chain, as an event in his inbox. Ada, who has asked him, waits to be called back. */
  async function turnOf(budget: { tokensPerDay?: number; tokensPerRoot?: number }) {
    const { platform } = parley.app
    const core = createCore(platform)
    const human = await parley.human('Husam')
    const ada = await parley.agent('Ada')
    const bob = await parley.agent('Bob', { mind: 'PERSISTENT', budget })
    const space = await parley.space(human, [ada.id, bob.id], { routing: 'MENTION_CHAIN' })
    const { message } = await parley.send(human, space.id, 'Ask Bob')
    const replyStack = [{ entityId: ada.id, reason: 'he knows', spaceId: space.id }]
    const chain = { id: newId('chn'), spaceId: space.id, depth: 1, holderId: bob.id, replyStack, mentionedPairs: [] }
    await platform.db.prisma.chain.create({ data: chain })
    const event = {
      agentId: bob.id,
      ...UNMARKED,
      type: 'SPACE_MESSAGE' as const,
      dedupKey: message.id,
      payload: {},
      depth: 1,
    }
    const lineage = { spaceId: space.id, messageId: message.id, rootId: message.id, chainId: chain.id }
    await platform.db.transaction((tx) => insertEvents(tx, [{ ...event, ...lineage }]))
    return {
      ada,
      bob,
      lifecycle: core.lifecycle,
      claim: () => createCycles(platform).claim(bob.id),
      spend: () => platform.db.prisma.$executeRaw`
        WITH day AS (
          INSERT INTO "DailyUsage" (day, "agentId", "spaceId", model, "inputTokens")
          VALUES ((now() AT TIME ZONE 'UTC')::date, ${bob.id}, ${space.id}, 'test', 100)
        ) INSERT INTO "RootUsage" ("rootId", "inputTokens") VALUES (${message.id}, 100)`,
      holder: async () => (await platform.db.prisma.chain.findUniqueOrThrow({ where: { id: chain.id } })).holderId,
      event: () => platform.db.prisma.inboxEvent.findFirstOrThrow({ where: { agentId: bob.id } }),
      outcome: () =>
        platform.db.prisma.outcome.findFirst({
          where: { messageId: message.id, agentId: bob.id },
          select: { kind: true },
        }),
      called: () => platform.db.prisma.run.count({ where: { agentId: ada.id, chainId: chain.id } }),
    }
  }
  const SPENT = { status: 'FAILED', stopReason: 'OVER_BUDGET', error: 'Spent.' } as const

  test('waits with its event, if other runs have used up the day’s budget before it began', async () => {
    const turn = await turnOf({ tokensPerDay: 100 })
    const claim = await turn.claim()
    await turn.spend()
    expect(claim && (await turn.lifecycle.end(claim, SPENT))).toMatchObject({ status: 'FAILED' })
    expect(await turn.event()).toMatchObject({ runId: null, doneAt: null, waitsUntil: expect.any(Date) })
    expect([await turn.holder(), await turn.called()]).toEqual([turn.bob.id, 0])
    expect(await turn.outcome()).toEqual({ kind: 'OVER_BUDGET' })
  })

  test('is passed on, if its root has used up its budget: when its cycle ends, and before one begins', async () => {
    const begun = await turnOf({ tokensPerRoot: 100 })
    const claim = await begun.claim()
    await begun.spend()
    expect(claim && (await begun.lifecycle.end(claim, SPENT))).toMatchObject({ status: 'FAILED' })
    const waiting = await turnOf({ tokensPerRoot: 100 })
    await waiting.spend()
    expect(await waiting.claim()).toBe(null)
    // In the root in which Bob has worked, his limit also applies to Ada. In the other root, it does not.
    expect([await begun.holder(), await begun.called()]).toEqual([null, 0])
    expect([await waiting.holder(), await waiting.called()]).toEqual([waiting.ada.id, 1])
    for (const turn of [begun, waiting]) {
      expect(await turn.event()).toMatchObject({ doneAt: expect.any(Date), waitsUntil: null })
      expect(await turn.outcome()).toEqual({ kind: 'OVER_BUDGET' })
    }
  })
})
