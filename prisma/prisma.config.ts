import { defineConfig } from 'prisma/config'

// Generating needs no schema engine, but Prisma downloads one unless this variable names a file that exists.
// src/platform/migrate.ts applies the migrations, without Prisma.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= 'package.json'

export default defineConfig({ schema: 'schema.prisma', migrations: { path: 'migrations' } })
