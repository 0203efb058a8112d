import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import type { ModelRequest } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { inboxIn, type Thinking, thinkingOn } from '../support/thinking.ts'

describe.skipIf(!hasPostgres)('one agent on two worker processes', () => {
  let parley: TestApplication
  let second: TestApplication
  let thinking: Thinking

  beforeAll(async () => {
    parley = await startApplication({ stack: 'postgres' })
    second = await startApplication({ stack: 'postgres', beside: parley })
    thinking = thinkingOn(parley)
  })
  afterAll(async () => {
    await second?.close()
    await parley?.close()
  })
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  const db = () => parley.app.platform.db.prisma

  test('never runs two cycles at once, on any worker, and reads no event twice', async () => {
    const human = await parley.human('Husam')
    const bots = await Promise.all(['Ada', 'Bob', 'Cleo'].map((name) => thinking.bot(name)))
    const space = await parley.space(
      human,
      bots.map(({ id }) => id),
    )
    const under = new Map<string, number>()
    let most = 0
    const nameOf = (request: ModelRequest) => /You are (\w+)/.exec(request.instructions)?.[1] ?? ''
    parley.models.script(async (request) => {
      const name = nameOf(request)
      under.set(name, (under.get(name) ?? 0) + 1)
      most = Math.max(most, under.get(name) ?? 0)
      void request.ended.then(() => under.set(name, (under.get(name) ?? 0) - 1))
      return [{ text: 'Rea', chunks: 1, delayMs: 2 }]
    })
    for (let n = 0; n < 60; n++) await (n % 2 === 0 ? parley : second).send(human, space.id, `Message ${n}.`)
    await thinking.rest(...bots)

    expect(most).toBe(1)
    for (const bot of bots) {
      const runs = await thinking.runsOf(bot)
      expect(runs.length).toBeGreaterThan(1)
      const inboxes = parley.models.requests.filter((request) => nameOf(request) === bot.name).map(inboxIn)
      const shown = inboxes.flatMap((inbox) => [...inbox.matchAll(/"Message (\d+)\."/g)].map(([, n]) => Number(n)))
      expect(shown).toEqual(Array.from({ length: 60 }, (_, n) => n))
      expect((await thinking.cyclesOf(bot)).map(({ index }) => index)).toEqual(runs.map((_, index) => index))
    }
    const executedBy = await db().run.findMany({ where: { triggerType: 'INBOX' }, select: { attempt: true } })
    expect(executedBy.every(({ attempt }) => attempt === 1)).toBe(true)
  })

  test('continues after a cycle that outlived its time limit and its worker', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const space = await parley.space(human, [agent.id])
    const id = newId('run')
    const state = { cycle: 0, inbox: 'INBOX (1 event, then):', inboxSize: 1, recall: null, injections: [] }
    const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000)
    const long = { startedAt: ago(2), deadlineAt: ago(1), leaseUntil: ago(1), claimableAt: null, attempt: 1 }
    const row = { id, agentId: agent.id, status: 'RUNNING' as const, triggerType: 'INBOX' as const, triggerSummary: '' }
    await db().run.create({ data: { ...row, ...long, state, depth: 0, rootId: id } })
    parley.models.script(() => [{ text: 'Read.' }])
    await parley.send(human, space.id, 'Are you there?')
    await thinking.rest(agent)
    const [lost, next] = await thinking.runsOf(agent)
    expect(lost).toMatchObject({ id, status: 'FAILED', error: expect.stringContaining('PARLEY_MAX_RUN_SECONDS') })
    expect(next).toMatchObject({ status: 'COMPLETED', summary: 'Read.' })
  })

  test('gets no second unfinished cycle: the database refuses a second one', async () => {
    const agent = await thinking.bot('Ada')
    const cycle = (status: 'QUEUED' | 'RUNNING' | 'WAITING_TOOL' | 'COMPLETED') => {
      const id = newId('run')
      const row = {
        id,
        agentId: agent.id,
        status,
        triggerType: 'INBOX' as const,
        triggerSummary: '',
        depth: 0,
        rootId: id,
        claimableAt: null,
        leaseUntil: new Date(Date.now() + 3_600_000),
      }
      return db().run.create({ data: row })
    }
    await cycle('RUNNING')
    for (const status of ['QUEUED', 'RUNNING', 'WAITING_TOOL'] as const) {
      await expect(cycle(status)).rejects.toMatchObject({ code: 'P2002' })
    }
    await cycle('COMPLETED')
  })
})
