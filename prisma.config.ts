import { defineConfig } from 'prisma/config'

// Generating needs no schema engine, but Prisma downloads one unless this names a file that exists. Migrations are the
// work of `src/platform/migrate.ts`, which carries the engine as WebAssembly.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= 'package.json'

export default defineConfig({ schema: 'prisma/schema.prisma', migrations: { path: 'prisma/migrations' } })
