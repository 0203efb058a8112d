import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createProviderHealth, type ProviderHealth } from '../../src/models/provider-health.ts'
import { DATABASES, type Domain, openDomain } from '../support/domain.ts'

describe.each(DATABASES)('how a provider does, on %s', (database) => {
  let domain: Domain
  let health: ProviderHealth
  beforeAll(async () => {
    domain = await openDomain(database)
    health = createProviderHealth(domain.platform)
  })
  afterAll(() => domain?.close())
  beforeEach(() => domain.platform.db.prisma.modelProviderHealth.deleteMany())

  async function fails(times: number, provider = 'claude') {
    for (let time = 0; time < times; time++) await health.failed(provider)
  }
  const pass = (seconds: number) => domain.platform.db.prisma.$executeRaw`
    UPDATE "ModelProviderHealth" SET "restsUntil" = "restsUntil" - ${seconds} * interval '1 second',
      "failedAt" = ARRAY(SELECT t - ${seconds} * interval '1 second' FROM unnest("failedAt") t ORDER BY t)`
  const restingNow = async () => [...(await health.resting()).keys()]

  test('it rests for 30 s from the fifth failure within a minute on, and another one does not', async () => {
    await fails(4)
    await fails(1, 'other')
    expect(await restingNow()).toEqual([])
    await fails(1)
    const until = (await health.resting()).get('claude')?.getTime() ?? 0
    expect(Math.abs(until - Date.now() - 30_000)).toBeLessThan(10_000)
    await pass(29)
    expect(await restingNow()).toEqual(['claude'])
    await pass(1)
    expect(await restingNow()).toEqual([])
  })

  test('failures of more than a minute ago do not count', async () => {
    await fails(4)
    await pass(61)
    await fails(4)
    expect(await restingNow()).toEqual([])
    await fails(1)
    expect(await restingNow()).toEqual(['claude'])
  })

  test('who fails again right after its rest rests again, and only the last failures are kept', async () => {
    await fails(5)
    await pass(31)
    expect(await restingNow()).toEqual([])
    await fails(1)
    expect(await restingNow()).toEqual(['claude'])
    await fails(20)
    const [row] = await domain.platform.db.prisma.modelProviderHealth.findMany()
    expect(row?.failedAt).toHaveLength(5)
  })

  test('failures of many processes at once all count', async () => {
    await Promise.all(Array.from({ length: 5 }, () => health.failed('claude')))
    expect(await restingNow()).toEqual(['claude'])
  })
})
