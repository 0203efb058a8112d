import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Plan } from '../../src/generated/prisma/client.ts'
import type { PlanInput } from '../../src/plans/plans.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { claimNext } from '../../src/runs/claiming.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'
import { createPlanning, type Planning, withJobs } from '../support/planning.ts'

const START = Date.parse('2030-01-01T10:00:30Z')
const at = (time: string) => new Date(`2030-01-01T${time}Z`)

describe.each(RULE_DATABASES)('a plan on %s', (database) => {
  let domain: Domain
  let platform: Platform
  let planning: Planning
  let agentId: string

  beforeAll(async () => {
    domain = await openDomain(database)
    platform = await withJobs(domain.platform)
    planning = createPlanning(platform)
  })
  beforeEach(async () => {
    domain.clock.set(START)
    agentId = (await domain.agent('Reporter')).id
  })
  afterAll(async () => {
    await platform.jobs.close()
    await domain.close()
  })

  const moveTo = (time: string) => domain.clock.set(at(time).getTime())
  const set = async (plan: Partial<PlanInput>, owner = agentId) =>
    (await planning.plans.setOwn(owner, [{ name: 'Report', instruction: 'Write it.', ...plan }]))[0] as Plan
  const planOf = async ({ id }: Plan) => (await planning.plans.getMany([id]))[0]
  const runsOf = (id = agentId) => platform.db.prisma.run.findMany({ where: { agentId: id }, orderBy: { id: 'asc' } })
  const slotsOf = async ({ id }: Plan) => {
    const firings = await platform.db.prisma.planFiring.findMany({ where: { planId: id }, orderBy: { slot: 'asc' } })
    return firings.map(({ slot }) => slot)
  }
  /** Returns the plan's jobs in the queue, by their due times. */
  const jobsOf = async ({ id }: Plan) => {
    const rows = await platform.db.prisma.$queryRaw<{ startAfter: Date }[]>`
      SELECT start_after AS "startAfter" FROM pgboss.job
      WHERE data->>'planId' = ${id} AND state = 'created' ORDER BY start_after`
    return rows.map(({ startAfter }) => startAfter)
  }
  /** Returns what a worker claims at this time: runs, and persistent agents. */
  const claimAll = async () => {
    const { claims, inboxes } = await claimNext(platform, 100)
    return [...claims.map(({ run }) => run.id), ...inboxes]
  }

  test('a plan that is due starts a run of its agent, with the plan’s instruction and without an active space', async () => {
    const { id } = await set({ cron: '* * * * *', name: 'Morning', instruction: 'Compile the "report".' })
    // This name could exist before validation rejected such names.
    await platform.db.prisma.plan.update({ where: { id }, data: { name: 'Morning\nreport' } })
    moveTo('10:01:00.020')
    await planning.firing.fire(id)
    const [run, ...more] = await runsOf()
    expect(more).toEqual([])
    expect(run).toMatchObject({
      status: 'QUEUED',
      triggerType: 'PLAN',
      triggerName: 'Morning\nreport',
      triggerPayload: { instruction: 'Compile the "report".' },
      triggerSummary: 'The plan "Morning report": "Compile the "report"."',
      dedupKey: `${id}:2030-01-01T10:01:00.000Z`,
      triggerSpaceId: null,
      triggerMessageId: null,
      triggerServiceId: null,
      activeSpaceId: null,
      depth: 0,
      parentRunId: null,
    })
    expect(run?.rootId).toMatch(/^trg_/)
    expect(await claimAll()).toContain(run?.id)
  })

  test('a plan that descends from one message has an hourly limit of firings, whichever of its runs sets and deletes it', async () => {
    const { config } = platform
    const few = { ...platform, config: { ...config, limits: { ...config.limits, maxRootRuns: 3 } } }
    const { plans, firing } = createPlanning(few)
    let rootId = 'trg_a-message'
    let seconds = 0
    const setAndFire = async () => {
      const plan = { name: `Again ${seconds}`, instruction: 'Set another.', afterSeconds: 1 }
      const [made] = await plans.setOwn(agentId, [plan], { rootId })
      seconds += 60
      moveTo(new Date(START + seconds * 1000).toISOString().slice(11, -1))
      await firing.fire(made?.id ?? '')
      const fired = await platform.db.prisma.planFiring.findFirst({ where: { planId: made?.id ?? '' } })
      rootId = fired?.rootId ?? ''
      await plans.deleteOwn(agentId, [made?.id ?? ''])
      return {
        dueAfterMs: (made?.nextRunAt?.getTime() ?? 0) - (START + (seconds - 60) * 1000),
        result: fired?.result,
      }
    }
    const firings = [await setAndFire(), await setAndFire(), await setAndFire(), await setAndFire()]
    expect(firings).toEqual([
      { dueAfterMs: 1000, result: 'RUN' },
      { dueAfterMs: 60_000, result: 'RUN' },
      { dueAfterMs: 60_000, result: 'RUN' },
      { dueAfterMs: 60_000, result: 'LIMIT' },
    ])
    expect(await runsOf()).toHaveLength(3)
    seconds += 3600
    domain.clock.set(START + seconds * 1000)
    expect(await setAndFire()).toMatchObject({ result: 'RUN' })
  })

  test('a plan of an admin fires whenever it is due, and plans of its runs have their own limit', async () => {
    const { config } = platform
    const few = { ...platform, config: { ...config, limits: { ...config.limits, maxRootRuns: 1 } } }
    const { plans, firing } = createPlanning(few)
    const { id } = await plans.create(domain.admin, {
      agentId,
      name: 'Admin',
      instruction: 'Go.',
      schedule: { cron: '* * * * *' },
    })
    for (const minute of ['01', '02', '03']) {
      moveTo(`10:${minute}:00`)
      await firing.fire(id)
    }
    expect(await runsOf()).toHaveLength(3)
    const { rootId } = (await platform.db.prisma.planFiring.findFirst({ where: { planId: id } }))!
    const [often] = await plans.setOwn(agentId, [{ name: 'Own', instruction: 'Go.', cron: '* * * * *' }], { rootId })
    expect(often).toMatchObject({ originId: id, nextRunAt: at('10:04:00') })
    for (const minute of ['04', '05']) {
      moveTo(`10:${minute}:00`)
      await firing.fire(often?.id ?? '')
    }
    expect(await runsOf()).toHaveLength(4)
  })

  test('a plan of a persistent agent that is due puts an event into its inbox', async () => {
    const { id: thinker } = await domain.agent('Thinker', { mind: 'PERSISTENT' })
    const plan = await set({ afterSeconds: 30, name: 'Report' }, thinker)
    moveTo('10:01:00')
    await Promise.all([planning.firing.fire(plan.id), planning.firing.fire(plan.id)])
    expect(await platform.db.prisma.inboxEvent.findMany({ where: { agentId: thinker } })).toMatchObject([
      {
        type: 'PLAN',
        urgent: false,
        payload: { planId: plan.id, name: 'Report', instruction: 'Write it.' },
        depth: 0,
        doneAt: null,
      },
    ])
    expect(await runsOf(thinker)).toEqual([])
    expect(await claimAll()).toContain(thinker)
  })

  test('a plan of a persistent agent whose earlier event still waits continues, and wakes the agent once for all its slots', async () => {
    const { id: thinker } = await domain.agent('Thinker', { mind: 'PERSISTENT' })
    const plan = await set({ cron: '* * * * *' }, thinker)
    const { planFiring, inboxEvent } = platform.db.prisma
    const resultsBy = async (minutes: string[]) => {
      for (const minute of minutes) {
        moveTo(`10:${minute}:00`)
        await planning.serve()
      }
      return (await planFiring.findMany({ where: { planId: plan.id }, orderBy: { slot: 'asc' } })).map(
        ({ result }) => result,
      )
    }
    expect(await resultsBy(['01', '02', '03'])).toEqual(['INBOX', 'STILL_WAITING', 'STILL_WAITING'])
    expect(await inboxEvent.count({ where: { agentId: thinker } })).toBe(1)
    await inboxEvent.updateMany({ where: { agentId: thinker }, data: { doneAt: at('10:03:10') } })
    expect((await resultsBy(['04', '05'])).slice(3)).toEqual(['INBOX', 'STILL_WAITING'])
    expect(await planOf(plan)).toMatchObject({ nextRunAt: at('10:06:00'), enabled: true })
  })

  test('a plan of a paused agent skips its slot, and the firing records this', async () => {
    const plan = await set({ cron: '*/5 * * * *' })
    await platform.db.prisma.agent.update({ where: { id: agentId }, data: { paused: true } })
    moveTo('10:05:00')
    await planning.firing.fire(plan.id)
    expect(await runsOf()).toEqual([])
    expect(await platform.db.prisma.planFiring.findMany({ where: { planId: plan.id } })).toMatchObject([
      { slot: at('10:05:00'), result: 'PAUSED' },
    ])
    expect(await planOf(plan)).toMatchObject({ nextRunAt: at('10:10:00'), enabled: true })
  })

  test('advances to its next slot, and has a job for it', async () => {
    const plan = await set({ cron: '*/5 * * * *' })
    expect(await jobsOf(plan)).toEqual([at('10:05:00')])
    moveTo('10:05:00')
    await planning.firing.fire(plan.id)
    expect(await planOf(plan)).toMatchObject({ nextRunAt: at('10:10:00'), enabled: true })
    expect(await jobsOf(plan)).toEqual([at('10:05:00'), at('10:10:00')])
  })

  test('a plan that fires once ends after that', async () => {
    const plan = await set({ at: at('10:01:00.250') })
    moveTo('10:01:00.250')
    await planning.firing.fire(plan.id)
    expect(await planOf(plan)).toMatchObject({ nextRunAt: null, enabled: false })
    moveTo('12:00:00')
    await planning.firing.fire(plan.id)
    await planning.serve()
    expect(await runsOf()).toHaveLength(1)
  })

  test('fires a slot once, however many jobs run concurrently, and however late', async () => {
    const plan = await set({ cron: '* * * * *' })
    moveTo('10:01:07')
    await Promise.all(Array.from({ length: 8 }, () => planning.firing.fire(plan.id)))
    await planning.serve()
    expect(await slotsOf(plan)).toEqual([at('10:01:00')])
    expect(await runsOf()).toHaveLength(1)
  })

  test('fires once for several missed slots, and continues from the current time', async () => {
    const plan = await set({ cron: '0 * * * *' })
    moveTo('16:20:00')
    await planning.serve()
    await planning.firing.fire(plan.id)
    expect(await slotsOf(plan)).toEqual([at('11:00:00')])
    expect(await runsOf()).toHaveLength(1)
    expect(await planOf(plan)).toMatchObject({ nextRunAt: at('17:00:00') })
  })

  test('is not fired by an early job: it has one for its due time, and no second one', async () => {
    const plan = await set({ cron: '* * * * *' })
    for (const time of ['10:00:50', '10:00:59.999']) {
      moveTo(time)
      await planning.firing.fire(plan.id)
    }
    expect(await runsOf()).toEqual([])
    expect(await jobsOf(plan)).toEqual([at('10:01:00')])
  })

  test('fires without a job, if the job was lost', async () => {
    const plan = await set({ cron: '* * * * *' })
    await platform.db.prisma.$executeRaw`DELETE FROM pgboss.job WHERE data->>'planId' = ${plan.id}`
    moveTo('10:01:00')
    await planning.serve()
    expect(await slotsOf(plan)).toEqual([at('10:01:00')])
    expect(await jobsOf(plan)).toEqual([at('10:02:00')])
  })

  test('does not fire after it was deleted', async () => {
    const plan = await set({ cron: '* * * * *' })
    moveTo('10:01:00')
    await planning.firing.fire(plan.id)
    await planning.plans.deleteOwn(agentId, ['Report'])
    moveTo('10:02:00')
    await planning.firing.fire(plan.id)
    await planning.serve()
    expect(await runsOf()).toHaveLength(1)
    expect(await slotsOf(plan)).toEqual([])
  })

  test('a plan that is deleted during its firing fires completely or not at all', async () => {
    const plan = await set({ cron: '* * * * *' })
    moveTo('10:01:00')
    await Promise.all([planning.firing.fire(plan.id), planning.plans.delete(domain.admin, { id: plan.id })])
    expect(await slotsOf(plan)).toEqual([])
    expect((await runsOf()).length).toBeLessThanOrEqual(1)
  })

  test('a plan that was replaced follows only its new schedule', async () => {
    const plan = await set({ afterSeconds: 30 })
    await set({ cron: '30 * * * *' })
    moveTo('10:01:00')
    await planning.firing.fire(plan.id)
    expect(await runsOf()).toEqual([])
    moveTo('10:30:00')
    await planning.firing.fire(plan.id)
    expect(await slotsOf(plan)).toEqual([at('10:30:00')])
  })

  test('does not fire a slot again when the clock goes back', async () => {
    const plan = await set({ cron: '* * * * *' })
    moveTo('10:01:00')
    await planning.firing.fire(plan.id)
    moveTo('09:30:00')
    await planning.serve()
    for (const time of ['09:31:00', '10:00:00', '10:01:00', '10:02:00']) {
      moveTo(time)
      await planning.serve()
    }
    const slots = await slotsOf(plan)
    expect(slots.filter((slot) => slot >= at('10:01:00'))).toEqual([at('10:01:00'), at('10:02:00')])
    expect(await runsOf()).toHaveLength(slots.length)
  })

  test('resumes its slots when a clock that was ahead is corrected', async () => {
    const plan = await set({ cron: '* * * * *' })
    moveTo('11:00:30') // The clock is an hour ahead: the slots since 10:01 fire as one.
    await planning.serve()
    moveTo('11:01:00')
    await planning.serve()
    for (const time of ['10:02:30', '10:03:00', '10:03:10', '10:04:00']) {
      moveTo(time)
      await planning.serve()
    }
    expect(await slotsOf(plan)).toEqual([at('10:01:00'), at('10:03:00'), at('10:04:00'), at('11:01:00')])
    expect(await planOf(plan)).toMatchObject({ nextRunAt: at('10:05:00') })
    moveTo('11:01:00')
    await planning.serve() // 10:05 and all later slots fire as one; 11:01 has already fired.
    await planning.serve()
    expect((await slotsOf(plan)).slice(2)).toEqual([at('10:04:00'), at('10:05:00'), at('11:01:00')])
    expect(await runsOf()).toHaveLength(5)
  })

  test('a plan that was set while the clock was ahead does not wait until that time', async () => {
    moveTo('23:00:00')
    const plan = await set({ cron: '0 * * * *' })
    moveTo('10:10:00')
    await planning.serve()
    expect(await planOf(plan)).toMatchObject({ nextRunAt: at('11:00:00') })
  })

  test('deletes the records of old slots', async () => {
    const plan = await set({ cron: '0 0 1 * *' })
    for (const month of ['02', '03', '04', '05']) {
      domain.clock.set(Date.parse(`2030-${month}-01T00:00:00Z`))
      await planning.firing.fire(plan.id)
    }
    const remembered = (await slotsOf(plan)).map((slot) => slot.toISOString().slice(0, 10))
    expect(remembered).toEqual(['2030-04-01', '2030-05-01'])
    expect(await runsOf()).toHaveLength(4)
  })
})
