import type { Platform } from '../platform/platform.ts'
import { deleteProviderFailures, recordProviderFailure } from '../stores/provider-store.ts'

/**
 * Records in the database which model providers are skipped by all processes. Uses the database clock. A provider that
 * fails five times within a minute is skipped for 30 s after the last failure.
 */
export interface ProviderHealth {
  failed(provider: string): Promise<void>
  /** Resets the failures of a provider whose settings have changed. */
  forget(provider: string): Promise<void>
  /** Returns the providers that are now skipped, with the time at which this ends. */
  resting(): Promise<Map<string, Date>>
}

const FAILURES = 5

export function createProviderHealth({ db }: Pick<Platform, 'db'>): ProviderHealth {
  return {
    async failed(provider) {
      await recordProviderFailure(db.prisma, provider, FAILURES)
    },
    async forget(provider) {
      await deleteProviderFailures(db.prisma, provider)
    },
    async resting() {
      const rows = await db.prisma.$queryRaw<{ provider: string; restsUntil: Date }[]>`
        SELECT provider, "restsUntil" FROM "ModelProviderHealth" WHERE "restsUntil" > now()`
      return new Map(rows.map(({ provider, restsUntil }) => [provider, restsUntil]))
    },
  }
}
