import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  bindMigrationAwareSqlAdapterFactory,
  type SqlMigrationAwareDriverAdapterFactory,
} from '@prisma/driver-adapter-utils'

const ROOT = path.resolve(import.meta.dirname, '..')
const MIGRATIONS_DIRECTORY = path.join(ROOT, 'prisma/migrations')
const SCHEMA_FILE = path.join(ROOT, 'prisma/schema.prisma')
const NO_FILTERS = { externalTables: [], externalEnums: [] }

/** Prisma's schema engine as WebAssembly. The `exports` of its package hide the files, so they are imported by URL. */
interface SchemaEngine {
  diff(input: object): Promise<{ exitCode: number; stdout: string | null }>
}

/** The only function of the WebAssembly interface used here. Its type comes with the DOM types, which a server does not load. */
const { WebAssembly } = globalThis as unknown as {
  WebAssembly: {
    instantiate(bytes: Buffer, imports: object): Promise<{ instance: { exports: { __wbindgen_start(): void } } }>
  }
}

interface Glue {
  SchemaEngine: { new: (datamodels: object, log: () => void, adapter: object) => Promise<SchemaEngine> }
}

/**
 * The glue code keeps views of the instance's memory in module variables, so a second instance in one process would
 * break both.
 */
let glueLoading: Promise<Glue> | null = null

async function loadGlue(): Promise<Glue> {
  const folder = path.dirname(
    createRequire(path.join(ROOT, 'tools/package.json')).resolve('@prisma/schema-engine-wasm'),
  )
  const glue = await import(pathToFileURL(path.join(folder, 'schema_engine_bg.js')).href)
  const bytes = await readFile(path.join(folder, 'schema_engine_bg.wasm'))
  const { instance } = await WebAssembly.instantiate(bytes, { './schema_engine_bg.js': glue })
  glue.__wbg_set_wasm(instance.exports)
  instance.exports.__wbindgen_start()
  return glue
}

async function loadEngine(factory: SqlMigrationAwareDriverAdapterFactory): Promise<SchemaEngine> {
  glueLoading ??= loadGlue()
  const { SchemaEngine } = await glueLoading
  const schema = await readFile(SCHEMA_FILE, 'utf8')
  return SchemaEngine.new(
    { datamodels: [[SCHEMA_FILE, schema]] },
    () => {},
    bindMigrationAwareSqlAdapterFactory(factory),
  )
}

async function readMigrations() {
  const entries = await readdir(MIGRATIONS_DIRECTORY, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  const migrationDirectories = await Promise.all(
    names.sort().map(async (name) => ({
      path: name,
      migrationFile: {
        path: 'migration.sql',
        content: { tag: 'ok', value: await readFile(path.join(MIGRATIONS_DIRECTORY, name, 'migration.sql'), 'utf8') },
      },
    })),
  )
  const lockfile = { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' }
  return { baseDir: MIGRATIONS_DIRECTORY, lockfile, migrationDirectories, shadowDbInitScript: '' }
}

/**
 * Returns the SQL that changes the schema of the migrations to schema.prisma; null if they agree. `factory` connects to an
 * empty scratch database (PGlite in memory), which serves as the shadow database.
 */
export async function migrationDrift(factory: SqlMigrationAwareDriverAdapterFactory): Promise<string | null> {
  const engine = await loadEngine(factory)
  const migrations = await readMigrations()
  const from = migrations.migrationDirectories.length === 0 ? { tag: 'empty' } : { tag: 'migrations', ...migrations }
  const { exitCode, stdout } = await engine.diff({
    from,
    to: { tag: 'schemaDatamodel', files: [{ path: SCHEMA_FILE, content: await readFile(SCHEMA_FILE, 'utf8') }] },
    script: true,
    exitCode: true,
    shadowDatabaseUrl: null,
    filters: NO_FILTERS,
  })
  return exitCode === 0 ? null : (stdout ?? '')
}
