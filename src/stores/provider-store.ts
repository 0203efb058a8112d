import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "ModelProvider" and "ModelProviderHealth".

/** A stored provider. */
export interface StoredProvider {
  name: string
  api: string
  baseUrl: string | null
  /** The encrypted API key; null if there is none. */
  keySealed: string | null
}

/**
 * Prevents concurrent changes to providers until the transaction ends. Returns the provider with this name, or null
 * if there is none.
 */
export async function lockProvider(tx: Tx, name: string): Promise<StoredProvider | null> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended('ModelProvider', 0))`
  const [row] = await tx.$queryRaw<StoredProvider[]>`
    SELECT name, api, "baseUrl", "keySealed" FROM "ModelProvider" WHERE name = ${name}`
  return row ?? null
}

export async function countProviders(tx: Tx): Promise<number> {
  const [row] = await tx.$queryRaw<{ count: number }[]>`SELECT count(*)::int AS count FROM "ModelProvider"`
  return row?.count ?? 0
}

export async function writeProvider(tx: Tx, { name, api, baseUrl, keySealed }: StoredProvider): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "ModelProvider" (name, api, "baseUrl", "keySealed") VALUES (${name}, ${api}, ${baseUrl}, ${keySealed})
    ON CONFLICT (name) DO UPDATE SET api = excluded.api, "baseUrl" = excluded."baseUrl", "keySealed" = excluded."keySealed"`
}

/** Deletes a provider. Returns false if it did not exist. */
export async function deleteProvider(tx: Tx, name: string): Promise<boolean> {
  return (await tx.$executeRaw`DELETE FROM "ModelProvider" WHERE name = ${name}`) > 0
}

/**
 * Records a failure of a provider. If the last `most` failures happened within one minute, the provider is skipped
 * for 30 s.
 */
export async function recordProviderFailure(tx: Tx, provider: string, most: number): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "ModelProviderHealth" AS health (provider, "failedAt") VALUES (${provider}, ARRAY[now()])
    ON CONFLICT (provider) DO UPDATE SET
      "failedAt" = (health."failedAt" || now())[greatest(1, cardinality(health."failedAt") + 2 - ${most}::int):],
      "restsUntil" = CASE
        WHEN (health."failedAt" || now())[cardinality(health."failedAt") + 2 - ${most}::int] > now() - interval '1 minute'
        THEN now() + interval '30 seconds' ELSE health."restsUntil" END`
}

/** Deletes the recorded failures of a provider. */
export async function deleteProviderFailures(tx: Tx, provider: string): Promise<void> {
  await tx.$executeRaw`DELETE FROM "ModelProviderHealth" WHERE provider = ${provider}`
}
