import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createCore } from '../../src/app/core.ts'
import type { Claim } from '../../src/runs/claiming.ts'
import type { HandBackReason } from '../../src/stores/run-store.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'

describe.skipIf(!hasPostgres)('claims', () => {
  let one: TestApplication
  let two: TestApplication
  /** The claims of two workers, which the test calls. */
  let workers: ReturnType<typeof createCore>['lifecycle'][]

  beforeAll(async () => {
    one = await startApplication({ stack: 'postgres', worker: false })
    two = await startApplication({ stack: 'postgres', worker: false, beside: one })
    workers = [one, two].map(({ app }) => createCore(app.platform).lifecycle)
  })
  afterAll(async () => {
    await two?.close()
    await one?.close()
  })

  const db = () => one.app.platform.db.prisma
  const worker = (index: number) => workers[index] as (typeof workers)[number]

  /** Creates QUEUED runs of one agent. */
  async function queued(count: number, maxConcurrentRuns = 5): Promise<{ agentId: string; ids: string[] }> {
    const human = await one.human('Husam')
    const agent = await one.agent('Ada', { maxConcurrentRuns })
    const space = await one.space(human, [agent.id])
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push((await one.send(human, space.id, `Message ${n}`)).runs[0]?.id ?? '')
    return { agentId: agent.id, ids }
  }

  /** Claims again, as a worker does, if another transaction had locked the next row. */
  async function claimOne(index = 0): Promise<Claim> {
    const { claims, isMoreThere } = await worker(index).claim(1)
    if (isMoreThere) return claims[0] ?? claimOne(index)
    expect(claims).toHaveLength(1)
    return claims[0] as Claim
  }

  /**
   * Returns the seconds until the run may be claimed again, by the clock of the database, which stores milliseconds; null if it
   * may not be claimed.
   */
  async function pauseOf(id: string): Promise<number | null> {
    const [row] = await db().$queryRaw<{ pause: number | null }[]>`
      SELECT ceil(extract(epoch FROM "claimableAt" - clock_timestamp()) - 0.001)::float8 AS pause FROM "Run" WHERE id = ${id}`
    return row?.pause ?? null
  }

  const set = (id: string, data: { claimableAt?: Date; leaseUntil?: Date }) => db().run.update({ where: { id }, data })
  const LONG_AGO = new Date(0)
  const finish = (claim: Claim) => worker(0).end(claim, { status: 'COMPLETED', stopReason: 'FINISHED', summary: null })

  test.each([1, 3])(
    'queued runs of one human, in any number, do not delay the first run of another human: %i at a time',
    async (places) => {
      const { agentId } = await queued(40, places)
      const before = await worker(0).claim(places)
      expect(before.claims).toHaveLength(places)
      const alice = await one.human('Alice')
      const space = await one.space(alice, [agentId])
      const [question] = (await one.send(alice, space.id, 'My one question')).runs
      await finish(before.claims[0] as Claim)
      const { run } = await claimOne()
      expect(run.id).toBe(question?.id)
      // The runs of her question also count as hers, although an agent has sent the message.
      const data = { triggerSenderId: agentId, depth: 1 }
      const [later] = (await one.send(alice, space.id, 'And another')).runs
      await db().run.update({ where: { id: later?.id ?? '' }, data })
      const [again] = (await one.send(alice, space.id, 'And one more')).runs
      for (const claim of [...before.claims.slice(1), { run, attempt: run.attempt } as Claim]) await finish(claim)
      const turns: boolean[] = []
      for (let n = 0; n < 4; n += 1) {
        const claim = await claimOne()
        turns.push([later?.id, again?.id].includes(claim.run.id))
        await finish(claim)
      }
      expect(turns.filter((isHers) => isHers)).toHaveLength(2)
      await db().run.deleteMany({ where: { agentId } })
    },
  )

  test('queued runs of one human on many agents do not delay the first run of another human on another agent', async () => {
    const mallory = await one.human('Mallory')
    const agents = await Promise.all(Array.from({ length: 6 }, (_, n) => one.agent(`Mallory ${n}`)))
    const room = await one.space(
      mallory,
      agents.map(({ id }) => id),
    )
    for (let n = 0; n < 3; n++) await one.send(mallory, room.id, `Message ${n}`)
    const running = (await worker(0).claim(4)).claims
    expect(running).toHaveLength(4)
    const alice = await one.human('Alice')
    const own = await one.agent('Own')
    const space = await one.space(alice, [own.id])
    const [first] = (await one.send(alice, space.id, 'My one question')).runs
    // A call of an earlier run of Mallory's has got its answer.
    await finish(running[0] as Claim)
    await db()
      .$executeRaw`UPDATE "Run" SET status = 'WAITING_TOOL', "claimableAt" = now() WHERE id = ${running[1]?.run.id}`
    const { run } = await claimOne()
    expect(run.id).toBe(first?.id)
    await db().run.deleteMany({ where: { agentId: { in: [...agents.map(({ id }) => id), own.id] } } })
  })

  test('of two requesters without running runs, the one whose last run began longer ago is next, on all agents together', async () => {
    const [mine, yours] = [await queued(6), await queued(6)]
    const turns: string[] = []
    for (let n = 0; n < 6; n++) {
      const claim = await claimOne()
      turns.push(claim.run.agentId)
      await finish(claim)
    }
    for (const { agentId } of [mine, yours]) expect(turns.filter((id) => id === agentId)).toHaveLength(3)
    await db().run.deleteMany({ where: { agentId: { in: [mine.agentId, yours.agentId] } } })
  })

  test('find the only run of a human behind 5000 older ones of another, on the same agent', async () => {
    const { agentId, ids } = await queued(1)
    await db().$executeRaw`
      INSERT INTO "Run" (id, "agentId", "requesterId", status, "triggerType", "triggerSummary", depth, "rootId", "claimableAt", askers)
      SELECT 'run_' || lpad(to_hex(n), 32, '0'), "agentId", "requesterId", status, "triggerType", "triggerSummary", depth, "rootId",
        now() - interval '1 hour' + n * interval '1 millisecond', askers
      FROM "Run", generate_series(1, 5000) AS n WHERE id = ${ids[0]}`
    const alice = await one.human('Alice')
    const space = await one.space(alice, [agentId])
    const [question] = (await one.send(alice, space.id, 'My one question')).runs
    const { claims } = await worker(0).claim(2)
    expect(claims.map(({ run }) => run.id)).toContain(question?.id)
    await db().run.deleteMany({ where: { agentId } })
  })

  test('two workers that claim concurrently never exceed the limit of any agent, and leave no run unclaimed', {
    timeout: 120_000,
  }, async () => {
    const most = [1, 2, 3, 5]
    const agents = await Promise.all(most.map((count) => queued(12, count)))
    const limits = new Map(agents.map(({ agentId }, index) => [agentId, most[index] ?? 0]))
    const all = new Set(agents.flatMap(({ ids }) => ids))
    const seen: string[] = []
    const executing: Claim[] = []
    let round = 0
    while (seen.length < all.size) {
      const rounds = await Promise.all(Array.from({ length: 8 }, (_, n) => worker(n % 2).claim(1 + (n % 4))))
      const claims = rounds.flatMap((round) => round.claims)
      seen.push(...claims.map(({ run }) => run.id))
      executing.push(...claims)
      const counts = Map.groupBy(executing, ({ run }) => run.agentId)
      for (const [agentId, runs] of counts) expect(runs.length).toBeLessThanOrEqual(limits.get(agentId) ?? 0)
      // One of the three requesters continues, a different one each time.
      round++
      for (const [n, claim] of executing.splice(0).entries()) {
        if ((n + round) % 3 > 0) await finish(claim)
        else executing.push(claim)
      }
    }
    for (const claim of executing) await finish(claim)
    expect(seen.sort()).toEqual([...all].sort())
  })

  test('are ordered by age across all agents, and an agent at its limit delays no other', async () => {
    const full = await queued(6, 1)
    const other = await queued(1)
    const first = await claimOne()
    expect(first.run.id).toBe(full.ids[0])
    const second = await claimOne(1)
    expect(second.run.id).toBe(other.ids[0])
    expect((await worker(0).claim(10)).claims).toEqual([])
    await Promise.all([first, second].map(finish))
    for (const id of full.ids.slice(1)) {
      const claim = await claimOne()
      expect(claim.run.id).toBe(id)
      await finish(claim)
    }
  })

  test('prefer runs to resume over new runs, however long the new ones have waited', async () => {
    const lost = await queued(1)
    await claimOne()
    await queued(12, 1).then((many) => Promise.all(many.ids.map((id) => set(id, { claimableAt: LONG_AGO }))))
    await set(lost.ids[0] ?? '', { leaseUntil: LONG_AGO })
    await worker(1).lapse(lost.ids[0] ?? '')
    await db().$executeRaw`UPDATE "Run" SET "claimableAt" = now() WHERE id = ${lost.ids[0]}`
    const claim = await claimOne(1)
    expect(claim).toMatchObject({ run: { id: lost.ids[0] }, kind: 'taken-over' })
    await finish(claim)
    for (let left = 12; left > 0; left--) await finish(await claimOne())
  })

  test('do not wait: rows that another transaction has locked are skipped, and tried again soon', async () => {
    const { agentId, ids } = await queued(1)
    await one.app.platform.db.transaction(async (tx) => {
      // The end of a cycle also locks the row of the agent, after that of the run.
      await tx.$queryRaw`SELECT 1 FROM "Agent" WHERE id = ${agentId} FOR NO KEY UPDATE`
      expect(await worker(1).claim(1)).toEqual({ claims: [], inboxes: [], isMoreThere: true })
    })
    const claim = await claimOne(1)
    expect(claim.run.id).toBe(ids[0])
    await finish(claim)
  })

  test.each<[HandBackReason, (number | null)[]]>([
    ['fault', [1, 2, null]],
    ['outage', [1, 2, 4, 8, 16, 32, 60, 60]],
    ['handed-over', [0, 0, 0, 0, 0, 0]],
  ])('released after a %s are available again after %j seconds', async (reason, pauses) => {
    const { ids } = await queued(1)
    const id = ids[0] ?? ''
    for (const [index, pause] of pauses.entries()) {
      const claim = await claimOne(index % 2)
      expect(claim).toMatchObject({ attempt: index + 1, kind: index === 0 ? 'started' : 'taken-over' })
      await worker(index % 2).handBack(claim, reason)
      const had = await pauseOf(id)
      expect(had === null ? null : Math.abs(had)).toBe(pause)
      if (pause !== 0) expect((await worker(0).claim(1)).claims).toEqual([])
      await set(id, pause === null ? {} : { claimableAt: LONG_AGO })
    }
    const ended = pauses.includes(null)
    expect(await one.run(id)).toMatchObject(
      ended ? { status: 'FAILED', error: expect.stringContaining('died 3 times') } : { status: 'RUNNING' },
    )
    if (!ended) await finish(await claimOne())
  })

  test('whose leases lapse are resumed three times, after increasing pauses, and then fail', async () => {
    const { ids } = await queued(1)
    const id = ids[0] ?? ''
    for (const pause of [1, 2, null]) {
      await claimOne()
      await worker(1).lapse(id)
      expect(await pauseOf(id)).toBe(null) // The worker of this run is alive.
      await set(id, { leaseUntil: LONG_AGO })
      await Promise.all([worker(0).lapse(id), worker(1).lapse(id)])
      expect(await pauseOf(id)).toBe(pause)
      await set(id, pause === null ? {} : { claimableAt: LONG_AGO })
    }
    expect(await one.run(id)).toMatchObject({ status: 'FAILED', error: expect.stringContaining('died 3 times') })
  })

  test('runs that were taken over while their worker slept belong to the new worker: the old one settles nothing', async () => {
    const { ids, agentId } = await queued(2, 1)
    const id = ids[0] ?? ''
    const sleeper = await claimOne(0)
    await set(id, { leaseUntil: LONG_AGO })
    await worker(1).lapse(id)
    await set(id, { claimableAt: LONG_AGO })
    const taken = await claimOne(1)
    expect(taken).toMatchObject({ run: { id }, attempt: 2, kind: 'taken-over' })

    expect(await worker(0).end(sleeper, { status: 'COMPLETED', stopReason: 'FINISHED', summary: 'Late.' })).toBeNull()
    await worker(0).handBack(sleeper, 'handed-over')
    await expect(worker(0).pause(sleeper, [])).rejects.toThrow()
    expect(await one.run(id)).toMatchObject({ status: 'RUNNING', attempt: 2, summary: null })
    expect((await worker(0).claim(1)).claims).toEqual([])

    await worker(1).handBack(taken, 'handed-over')
    const again = await claimOne(0)
    expect(again).toMatchObject({ run: { id }, attempt: 3 })
    await finish(again)
    const next = await claimOne(0)
    expect(next.run).toMatchObject({ id: ids[1], agentId })
    await finish(next)
  })
})
