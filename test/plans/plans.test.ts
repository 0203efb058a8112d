import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Plan } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import type { CreatePlanInput, PlanInput, UpdatePlanInput } from '../../src/plans/plans.ts'
import { nextSlot } from '../../src/plans/schedule.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'
import { createPlanning, type Planning, withJobs } from '../support/planning.ts'

const START = Date.parse('2030-01-01T10:00:30.500Z')
const at = (time: string) => new Date(`2030-01-01T${time}Z`)

describe.each(RULE_DATABASES)('plans on %s', (database) => {
  let domain: Domain
  let platform: Platform
  let planning: Planning

  beforeAll(async () => {
    domain = await openDomain(database)
    domain.clock.set(START)
    platform = await withJobs(domain.platform)
    planning = createPlanning(platform)
  })
  afterAll(async () => {
    await platform.jobs.close()
    await domain.close()
  })

  const agent = async () => (await domain.agent('Reporter')).id
  const create = (input: Partial<CreatePlanInput> & { agentId: string }) =>
    planning.plans.create(domain.admin, {
      name: 'Report',
      instruction: 'Write it.',
      schedule: { cron: '* * * * *' },
      ...input,
    })
  const setOwn = async (agentId: string, plan: Partial<PlanInput>) =>
    (await planning.plans.setOwn(agentId, [{ name: 'Report', instruction: 'Write it.', ...plan }]))[0] as Plan
  const planOf = async ({ id }: { id: string }) => (await planning.plans.getMany([id]))[0]
  const finish = (id: string) =>
    platform.db.prisma.plan.update({ where: { id }, data: { enabled: false, nextRunAt: null } })

  test('plans that a run may not see do not count towards its limit', async () => {
    const agentId = await agent()
    const space = await domain.space(domain.admin)
    await platform.db.prisma.space.update({ where: { id: space.id }, data: { confidential: true } })
    const plans = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ name: `Plan ${n}`, instruction: 'Do it.', cron: '0 6 * * *' }))
    const provenance = { places: [space.id], label: [space.id], askers: [] }
    await planning.plans.setOwn(agentId, plans(100), { provenance })
    const oneMore = planning.plans.setOwn(agentId, [{ ...plans(1)[0]!, name: 'One more' }], { provenance })
    await expect(oneMore).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
    await setOwn(agentId, { cron: '0 6 * * *' })
    expect((await planning.plans.listMany([agentId])).get(agentId)).toHaveLength(101)
  })

  test('a finished plan cannot be resumed if a run that may see it would then have more than 100', async () => {
    const agentId = await agent()
    const space = await domain.space(domain.admin)
    await platform.db.prisma.space.update({ where: { id: space.id }, data: { confidential: true } })
    const provenance = { places: [space.id], label: [space.id], askers: [] }
    const [finished] = await planning.plans.setOwn(
      agentId,
      [{ name: 'Hidden', instruction: 'Do it.', cron: '0 6 * * *' }],
      {
        provenance,
      },
    )
    const id = finished?.id ?? ''
    await finish(id)
    const shown = Array.from({ length: 100 }, (_, n) => ({
      name: `Plan ${n}`,
      instruction: 'Do it.',
      cron: '0 6 * * *',
    }))
    await planning.plans.setOwn(agentId, shown)
    const resume = () => planning.plans.update(domain.admin, { id, schedule: { cron: '0 6 * * *' }, enabled: true })
    await expect(resume()).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
    expect(await planOf({ id })).toMatchObject({ enabled: false, nextRunAt: null })
    await planning.plans.deleteOwn(agentId, ['Plan 0'])
    expect(await resume()).toMatchObject({ enabled: true })
  })

  test.each([
    [
      'a slot in its own time zone',
      '0 6 * * *',
      '2026-07-01T05:00:00Z',
      ['2026-07-02T04:00:00Z', '2026-07-03T04:00:00Z'],
    ],
    [
      'an hour that does not exist fires at the next existing minute',
      '30 2 * * *',
      '2026-03-28T00:00:00Z',
      ['2026-03-28T01:30:00Z', '2026-03-29T01:00:00Z', '2026-03-30T00:30:00Z'],
    ],
    [
      'an hour that repeats fires once',
      '30 2 * * *',
      '2026-10-24T12:00:00Z',
      ['2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z'],
    ],
    [
      'every half hour of it fires too',
      '*/30 * * * *',
      '2026-10-25T00:00:00Z',
      ['2026-10-25T00:30:00Z', '2026-10-25T02:00:00Z'],
    ],
  ])('cron expressions in Europe/Berlin: %s', (_, cron, from, slots) => {
    let after = Date.parse(from)
    for (const slot of slots) {
      const next = nextSlot({ cron, timeZone: 'Europe/Berlin' }, after)
      expect(next).toEqual(new Date(slot))
      after = next?.getTime() ?? 0
    }
  })

  test('can be changed by an admin: schedule, time zone, and whether they are enabled', async () => {
    const plan = await create({ agentId: await agent(), schedule: { cron: '0 6 * * *' }, timeZone: 'Asia/Tokyo' })
    expect(plan).toMatchObject({ timeZone: 'Asia/Tokyo', nextRunAt: new Date('2030-01-01T21:00:00Z') })
    const update = (input: Omit<UpdatePlanInput, 'id'>) =>
      planning.plans.update(domain.admin, { id: plan.id, ...input })
    expect(await update({ timeZone: 'Europe/Berlin', instruction: 'Well.' })).toMatchObject({
      instruction: 'Well.',
      nextRunAt: new Date('2030-01-02T05:00:00Z'),
    })
    expect(await update({ enabled: false })).toMatchObject({ enabled: false })
    expect(await update({ enabled: true })).toMatchObject({ nextRunAt: new Date('2030-01-02T05:00:00Z') })
    expect(await update({ schedule: { afterSeconds: 60 } })).toMatchObject({
      cron: null,
      nextRunAt: at('10:01:30.500'),
    })
    await finish(plan.id)
    await expect(update({ enabled: true })).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.schedule' })
    await expect(update({ timeZone: 'Mars/Base' })).rejects.toMatchObject({
      code: 'BAD_INPUT',
      field: 'input.timeZone',
    })
    await expect(update({ enabled: null })).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.enabled' })
  })

  test('plans with a cron expression are next due at the next slot in UTC', async () => {
    const plan = await create({ agentId: await agent(), schedule: { cron: ' 0  6 * * 1-5 ' } })
    expect(plan).toMatchObject({ cron: '0 6 * * 1-5', nextRunAt: new Date('2030-01-02T06:00:00Z'), enabled: true })
    expect(await planOf(plan)).toMatchObject({ id: plan.id, name: 'Report', instruction: 'Write it.' })
  })

  test('show their next five times, even before they are created, in their time zone', async () => {
    const schedule = { cron: '30 8 * * 1-5' }
    const times = ['02T07:30', '03T07:30', '04T07:30', '07T07:30', '08T07:30'].map(
      (time) => new Date(`2030-01-${time}:00Z`),
    )
    expect(planning.plans.timesOf(schedule, 'Europe/Berlin')).toEqual(times)
    const plan = await create({ agentId: await agent(), schedule, timeZone: 'Europe/Berlin' })
    expect(planning.plans.nextTimesOf(plan)).toEqual(times)
    expect(planning.plans.nextTimesOf({ ...plan, enabled: false })).toEqual([])
    expect(planning.plans.timesOf({ afterSeconds: 60 }, null)).toEqual([new Date(START + 60_000)])
    expect(planning.plans.timesOf({ cron: '0 0 29 2 *' }, null).map((time) => time.getUTCFullYear())).toEqual([
      2032, 2036, 2040, 2044, 2048,
    ])
    expect(() => planning.plans.timesOf({ cron: '0 0 30 2 *' }, null)).toThrow('Invalid cron schedule')
    expect(() => planning.plans.timesOf(schedule, 'Mars/Olympus')).toThrow('Unknown time zone')
  })

  test.each([
    ['six fields', '* * * * * *'],
    ['four fields', '* * * *'],
    ['nothing', ''],
    ['a nickname', '@daily'],
    ['words', 'every five minutes of day'],
    ['a minute that does not exist', '60 * * * *'],
    ['a day that never comes', '0 0 30 2 *'],
    ['a random minute', 'H * * * *'],
    ['a step of zero', '*/0 * * * *'],
  ])('cron expressions with %s are refused', async (_, cron) => {
    const refused = { code: 'BAD_INPUT', field: 'input.schedule.cron' }
    await expect(create({ agentId: await agent(), schedule: { cron } })).rejects.toMatchObject(refused)
  })

  test('cron expressions may contain names of days, the last day of a month, and the last Friday', async () => {
    const agentId = await agent()
    const slots = { '0 0 * * THU': '2030-01-03', '0 0 L * *': '2030-01-31', '0 0 * * 5L': '2030-01-25' }
    for (const [cron, day] of Object.entries(slots)) {
      const plan = await create({ agentId, name: cron, schedule: { cron } })
      expect(plan.nextRunAt).toEqual(new Date(`${day}T00:00:00Z`))
    }
  })

  test('plans for a time, or for after a number of seconds, are due once', async () => {
    const agentId = await agent()
    const dated = await create({ agentId, name: 'dated', schedule: { at: at('11:00:00') } })
    const delayed = await create({ agentId, name: 'delayed', schedule: { afterSeconds: 90 } })
    expect(dated).toMatchObject({ cron: null, nextRunAt: at('11:00:00'), enabled: true })
    expect(delayed).toMatchObject({ cron: null, nextRunAt: at('10:02:00.500'), enabled: true })
  })

  test.each([
    ['a past time', { at: at('10:00:00') }, 'input.schedule.at'],
    ['the current time', { at: new Date(START) }, 'input.schedule.at'],
    ['no time', { at: new Date(Number.NaN) }, 'input.schedule.at'],
    ['a time after the year 9999', { at: new Date('+010000-01-01T00:00:00Z') }, 'input.schedule.at'],
    ['no seconds', { afterSeconds: 0 }, 'input.schedule.afterSeconds'],
    ['half a second', { afterSeconds: 0.5 }, 'input.schedule.afterSeconds'],
    ['no schedule', {}, 'input.schedule'],
    ['two schedules', { afterSeconds: 1, cron: '* * * * *' }, 'input.schedule'],
  ])('with %s are refused', async (_, schedule, field) => {
    await expect(create({ agentId: await agent(), schedule })).rejects.toMatchObject({ code: 'BAD_INPUT', field })
  })

  test('need a name and an instruction', async () => {
    const agentId = await agent()
    const nameless = { code: 'BAD_INPUT', field: 'input.name' }
    await expect(create({ agentId, name: ' ' })).rejects.toMatchObject(nameless)
    const idle = { code: 'BAD_INPUT', field: 'input.instruction' }
    await expect(create({ agentId, instruction: ' ' })).rejects.toMatchObject(idle)
    await expect(create({ agentId, instruction: 'x'.repeat(32_001) })).rejects.toMatchObject(idle)
  })

  test('are created and deleted by admins only', async () => {
    const agentId = await agent()
    const plan = await create({ agentId })
    const forbidden = { code: 'FORBIDDEN' }
    for (const viewer of [await domain.human('Ada'), await domain.service('Jira', [agentId])]) {
      const input = { agentId, name: 'Mine', instruction: 'Do.', schedule: { afterSeconds: 1 } }
      await expect(planning.plans.create(viewer, input)).rejects.toMatchObject(forbidden)
      await expect(planning.plans.delete(viewer, { id: plan.id })).rejects.toMatchObject(forbidden)
    }
    expect(await planning.plans.delete(domain.admin, { id: plan.id })).toEqual({ deletedPlanId: plan.id })
    expect(await planOf(plan)).toBe(null)
  })

  test('need an existing agent, and can be deleted once', async () => {
    const { id: human } = await domain.human('Ada')
    const notFound = { code: 'NOT_FOUND' }
    for (const agentId of [newId('agt'), human, 'nonsense\0']) {
      await expect(create({ agentId })).rejects.toMatchObject(notFound)
    }
    for (const id of [newId('pln'), 'nonsense\0']) {
      await expect(planning.plans.delete(domain.admin, { id })).rejects.toMatchObject(notFound)
    }
  })

  test('are listed by agent, oldest first, without those of other agents', async () => {
    const [one, other, idle] = [await agent(), await agent(), await agent()]
    await create({ agentId: one, name: 'b' })
    await create({ agentId: one, name: 'a' })
    await create({ agentId: other, name: 'b' })
    const listed = await planning.plans.listMany([one, other, idle])
    expect([...listed].map(([id, plans]) => [id, plans.map(({ name }) => name)])).toEqual([
      [one, ['b', 'a']],
      [other, ['b']],
    ])
  })

  test('have unique names; a name is free again when its plan has ended', async () => {
    const agentId = await agent()
    const first = await create({ agentId })
    await expect(create({ agentId })).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.name' })
    await finish(first.id)
    const second = await create({ agentId })
    expect(second.id).not.toBe(first.id)
    expect(await planOf(first)).toBe(null)
  })

  test('that the agent itself sets replace plans of the same name, which keep their ids', async () => {
    const agentId = await agent()
    const first = await setOwn(agentId, { cron: '* * * * *' })
    const second = await setOwn(agentId, { afterSeconds: 60, instruction: 'Another.' })
    expect(second).toMatchObject({ id: first.id, cron: null, instruction: 'Another.', nextRunAt: at('10:01:30.500') })
    expect((await planning.plans.listMany([agentId])).get(agentId)).toHaveLength(1)
  })

  test('set together are all set or none of them', async () => {
    const agentId = await agent()
    const good = { name: 'good', instruction: 'Do.', afterSeconds: 1 }
    const bad = { name: 'bad', instruction: 'Do.', cron: 'nonsense' }
    const refused = { code: 'BAD_INPUT', field: 'plans.1.cron' }
    await expect(planning.plans.setOwn(agentId, [good, bad])).rejects.toMatchObject(refused)
    expect(await planning.plans.listMany([agentId])).toEqual(new Map())
  })

  test('are deleted by the agent itself by name or id, if they are its own', async () => {
    const [agentId, other] = [await agent(), await agent()]
    const named = await setOwn(agentId, { name: 'named', afterSeconds: 1 })
    const known = await setOwn(agentId, { name: 'known', afterSeconds: 1 })
    const theirs = await setOwn(other, { name: 'named', afterSeconds: 1 })
    const asked = ['named', known.id, theirs.id, 'nothing', '\0']
    const deleted = await planning.plans.deleteOwn(agentId, asked)
    expect(deleted.map(({ id }) => id).sort()).toEqual([named.id, known.id].sort())
    expect(await planOf(theirs)).not.toBe(null)
  })

  test('are at most 100 per agent, with any number of concurrent writers; the oldest ended plans are removed first', async () => {
    const agentId = await agent()
    const plan = (index: number) => ({ name: `plan ${index}`, instruction: 'Do.', cron: '0 0 1 1 *' })
    const made = await planning.plans.setOwn(
      agentId,
      Array.from({ length: 99 }, (_, index) => plan(index)),
    )
    const more = await Promise.allSettled([100, 101, 102].map((index) => planning.plans.setOwn(agentId, [plan(index)])))
    expect(more.filter(({ status }) => status === 'rejected')).toMatchObject([
      { reason: { code: 'LIMIT_EXCEEDED' } },
      { reason: { code: 'LIMIT_EXCEEDED' } },
    ])
    await finish(made[7]?.id ?? '')
    await finish(made[8]?.id ?? '')
    await create({ agentId, name: 'one more' })
    expect(await planOf(made[7] as Plan)).toBe(null)
    expect(await planOf(made[8] as Plan)).not.toBe(null)
  })
})
