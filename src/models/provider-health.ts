import type { Platform } from '../platform/platform.ts'

/**
 * Which providers of models rest, for all processes: by the database and its clock. A provider that fails five times within a
 * minute rests for 30 s from the last of them.
 */
export interface ProviderHealth {
  failed(provider: string): Promise<void>
  /** Those that rest now, with until when. */
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
    async resting() {
      const rows = await db.prisma.$queryRaw<{ provider: string; restsUntil: Date }[]>`
        SELECT provider, "restsUntil" FROM "ModelProviderHealth" WHERE "restsUntil" > now()`
      return new Map(rows.map(({ provider, restsUntil }) => [provider, restsUntil]))
    },
  }
}
