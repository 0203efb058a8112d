import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '..')
const FOLDERS_THAT_SAY_NOTHING = ['utils', 'util', 'helpers', 'services', 'common', 'misc']

const files = ['src', 'client', 'web', 'examples', 'bench', 'scripts', 'test'].flatMap(sourcesIn)
const product = files.filter((file) => /^(src|client|web)\//.test(file))

/** Returns the hand-written TypeScript files under a folder, as paths from the root of the project. */
function sourcesIn(folder: string): string[] {
  const absolute = path.join(ROOT, folder)
  if (!existsSync(absolute)) return []
  return readdirSync(absolute, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((file) => !/(^|\/)(generated|__generated__|dist|node_modules)\//.test(file))
}

const texts = new Map<string, string>()

function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(path.join(ROOT, file), 'utf8')
  texts.set(file, text)
  return text
}

describe('the shape of the source', () => {
  test('there are files to check', () => {
    expect(product.length).toBeGreaterThan(10)
  })

  test('files and folders are named in kebab-case', () => {
    const kebab = /^[a-z0-9]+(-[a-z0-9]+)*(\.(test|config|d))?(\.tsx?)?$/
    expect(files.filter((file) => !file.split('/').every((part) => kebab.test(part)))).toEqual([])
  })

  test('no folder has a catch-all name', () => {
    expect(files.filter((file) => file.split('/').some((part) => FOLDERS_THAT_SAY_NOTHING.includes(part)))).toEqual([])
  })

  const sources = files.filter((file) => file.startsWith('src/'))
  const tables = [...textOf('prisma/schema.prisma').matchAll(/^model (\w+) \{/gm)].map(([, table]) => table as string)

  /** Returns the files of src/ that write each table, in SQL or through Prisma's delegate. */
  function writersByTable(): Map<string, string[]> {
    const delegates = new Map(tables.map((table) => [table.charAt(0).toLowerCase() + table.slice(1), table]))
    const writing = new RegExp(
      `(?:INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE|COPY)\\s+"(\\w+)"|insertionOf\\('(\\w+)'|\\.(${[...delegates.keys()].join('|')})\\s*\\.(?:create|update|upsert|delete)`,
      'g',
    )
    const writers = new Map<string, string[]>(tables.map((table) => [table, []]))
    for (const file of sources) {
      const written = [...textOf(file).matchAll(writing)].map(
        ([, table, inserted, delegate]) => table ?? inserted ?? delegates.get(delegate ?? '') ?? '',
      )
      for (const table of new Set(written)) writers.get(table)?.push(file)
    }
    return writers
  }
  const writers = writersByTable()

  const NOT_WRITTEN_BY_A_STORE: Record<string, string[]> = {
    // A migration writes this table, for servers that already existed.
    ServerDefault: [],
    // The database checks itself by writing this row, below the layer of stores.
    ReadinessCheck: ['src/platform/db.ts'],
  }

  test.each(tables)('the table %s has one writer, which is a store', (table) => {
    expect(writers.get(table)).toEqual(NOT_WRITTEN_BY_A_STORE[table] ?? [expect.stringMatching(/^src\/stores\//)])
  })

  test('no write of a table is nested in that of another', () => {
    const nested = /:\s*\{\s*(create|createMany|connectOrCreate|update|updateMany|upsert|delete|deleteMany):/
    expect(sources.filter((file) => nested.test(textOf(file)))).toEqual([])
  })

  test('only mechanisms over many tables receive the name of the table that they write', () => {
    const byName = /(INSERT INTO|(?<!KEY )UPDATE|DELETE FROM|MERGE INTO|TRUNCATE|COPY)\s+"?\$\{|insertionOf\((?!')/
    const mechanisms = [
      // The import, and the rotation of the key that encrypts columns.
      'src/operation/import.ts',
      'src/operation/key-rotation.ts',
      // Erasure removes names from all tables, and texts that were derived from deleted ones.
      'src/flows/derived-texts.ts',
      'src/operation/redaction.ts',
      // Retention deletes old rows of all tables.
      'src/operation/old-rows.ts',
      // SQL statements of stores for several tables.
      'src/platform/insertion.ts',
      'src/stores/fork-store.ts',
      'src/stores/thread-store.ts',
    ]
    expect(sources.filter((file) => byName.test(textOf(file))).toSorted()).toEqual(mechanisms.toSorted())
  })

  test('lists of statuses are only in the rules and in their SQL', () => {
    const statuses = ['RunStatus', 'ToolCallStatus', 'MessageStatus'].flatMap((name) => {
      const [, values = ''] = textOf('prisma/schema.prisma').match(new RegExp(`^enum ${name} \\{([^}]*)\\}`, 'm')) ?? []
      return values.split('\n').flatMap((line) => line.match(/^ +(\w+)$/)?.[1] ?? [])
    })
    expect(statuses).toContain('WAITING_TOOL')
    const one = `['"](${statuses.join('|')})['"]`
    const list = new RegExp(`${one}\\s*,\\s*${one}`)
    const listing = sources.filter((file) => list.test(textOf(file)))
    const ofOthers = [
      // The states of A2A's tasks share some names with ours.
      'src/tools/a2a/remote-task.ts',
    ]
    expect(listing.filter((file) => !ofOthers.includes(file))).toEqual(['src/rules/statuses.ts'])
  })

  test('only wake-ups write runs', () => {
    const inserting = /import \{[^}]*\binsertRuns(Sql)?\b[^}]*\} from '[^']*run-store\.ts'/
    expect(sources.filter((file) => inserting.test(textOf(file)))).toEqual(['src/flows/wake.ts'])
  })

  test('only the hold throws RunLostError', () => {
    const throwing = files.filter((file) => file.startsWith('src/') && /new RunLostError/.test(textOf(file)))
    expect(throwing).toEqual(['src/runs/hold.ts'])
  })

  test('the settings are read in one place', () => {
    const readers = files.filter(
      (file) => file.startsWith('src/') && /process\s*\.\s*env|\benv\b.*node:process/.test(textOf(file)),
    )
    // The variables of libpq complete a URL of PostgreSQL.
    const allowed = ['src/config.ts', 'src/main.ts', 'src/lib/postgres-url.ts']
    expect(readers.filter((file) => !allowed.includes(file))).toEqual([])
  })
})
