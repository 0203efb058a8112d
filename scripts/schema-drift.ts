import { PGlite } from '@electric-sql/pglite'
import { PrismaPGlite } from '../src/generated/pglite-prisma-adapter.ts'
import { migrationDrift } from './schema-engine.ts'

/**
 * Returns the SQL that changes the schema of prisma/migrations to prisma/schema.prisma; null if they agree. Uses PGlite as the
 * scratch database.
 */
export async function schemaDrift(): Promise<string | null> {
  const scratch = await PGlite.create()
  try {
    return await migrationDrift(new PrismaPGlite(scratch))
  } finally {
    await scratch.close()
  }
}
