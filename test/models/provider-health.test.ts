import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createProviderHealth, type ProviderHealth } from '../../src/models/provider-health.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'

describe.each(RULE_DATABASES)('the health of a provider, on %s', (database) => {
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

  test('it pauses for 30 s after the fifth failure within a minute, and other providers continue', async () => {
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

  test('failures older than a minute do not count', async () => {
    await fails(4)
    await pass(61)
    await fails(4)
    expect(await restingNow()).toEqual([])
    await fails(1)
    expect(await restingNow()).toEqual(['claude'])
  })

  test('a failure right after a pause starts another one, and only recent failures are kept', async () => {
    await fails(5)
    await pass(31)
    expect(await restingNow()).toEqual([])
    await fails(1)
    expect(await restingNow()).toEqual(['claude'])
    await fails(20)
    const [row] = await domain.platform.db.prisma.modelProviderHealth.findMany()
    expect(row?.failedAt).toHaveLength(5)
  })

  test('concurrent failures of many processes all count', async () => {
    await Promise.all(Array.from({ length: 5 }, () => health.failed('claude')))
    expect(await restingNow()).toEqual(['claude'])
  })
})
