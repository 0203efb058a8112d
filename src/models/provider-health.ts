import type { Platform } from '../platform/platform.ts'

/**
 * Records which model providers are skipped, in the database and by its clock, for all processes. A provider that fails
 * five times within a minute is skipped for 30 s after the last failure.
 */
export interface ProviderHealth {
  failed(provider: string): Promise<void>
  /** Resets the failures of a provider whose settings have changed. */
  forget(provider: string): Promise<void>
  /** Returns the providers that are currently skipped, and until when. */
  resting(): Promise<Map<string, Date>>
}

const FAILURES = 5

export function createProviderHealth({ db }: Pick<Platform, 'db'>): ProviderHealth {
  return {
    async failed(provider) {
      await db.prisma.$executeRaw`
        INSERT INTO "ModelProviderHealth" AS health (provider, "failedAt") VALUES (${provider}, ARRAY[now()])
        ON CONFLICT (provider) DO UPDATE SET
          "failedAt" = (health."failedAt" || now())[greatest(1, cardinality(health."failedAt") + 2 - ${FAILURES}::int):],
          "restsUntil" = CASE
            WHEN (health."failedAt" || now())[cardinality(health."failedAt") + 2 - ${FAILURES}::int] > now() - interval '1 minute'
            THEN now() + interval '30 seconds' ELSE health."restsUntil" END`
    },
    async forget(provider) {
      await db.prisma.$executeRaw`DELETE FROM "ModelProviderHealth" WHERE provider = ${provider}`
    },
    async resting() {
      const rows = await db.prisma.$queryRaw<{ provider: string; restsUntil: Date }[]>`
        SELECT provider, "restsUntil" FROM "ModelProviderHealth" WHERE "restsUntil" > now()`
      return new Map(rows.map(({ provider, restsUntil }) => [provider, restsUntil]))
    },
  }
}
