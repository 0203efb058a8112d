import type { Tx } from '../platform/db.ts'

// Writes ModelProvider.

/** A stored provider. */
export interface StoredProvider {
  name: string
  api: string
  baseUrl: string | null
  /** Encrypted; null for none. */
  keySealed: string | null
}

/** Prevents concurrent changes of providers until the transaction ends. Returns the provider, if there is one. */
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

/** Returns whether such a provider existed. */
export async function deleteProvider(tx: Tx, name: string): Promise<boolean> {
  return (await tx.$executeRaw`DELETE FROM "ModelProvider" WHERE name = ${name}`) > 0
}
