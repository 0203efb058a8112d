import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '..')
const FOLDERS_THAT_SAY_NOTHING = ['utils', 'util', 'helpers', 'services', 'common', 'misc']

const files = ['src', 'client', 'web', 'examples', 'bench', 'scripts', 'test'].flatMap(sourcesIn)
const product = files.filter((file) => /^(src|client|web)\//.test(file))

/** Hand-written TypeScript files under a folder, as paths from the project's root. */
function sourcesIn(folder: string): string[] {
  const absolute = path.join(ROOT, folder)
  if (!existsSync(absolute)) return []
  return readdirSync(absolute, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((file) => !/(^|\/)(generated|__generated__|dist|node_modules)\//.test(file))
}

const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

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

  /** Files of src/ whose statements match the pattern for one of the tables, in SQL or through Prisma's delegate. */
  function touching(tables: string[], how: { sql: string; prisma: string }): string[] {
    const delegates = tables.map((table) => table[0]?.toLowerCase() + table.slice(1))
    const statement = new RegExp(
      `${how.sql}"(${tables.join('|')})"|insertionOf\\('(${tables.join('|')})'|\\.(${delegates.join('|')})\\s*\\.${how.prisma}`,
    )
    return files.filter((file) => file.startsWith('src/') && statement.test(textOf(file)))
  }
  const WRITING = {
    sql: '(INSERT INTO|UPDATE|DELETE FROM)\\s+',
    prisma: '(create|update|upsert|delete)',
  }

  // Statements over many tables by name (retention, import, redaction) do not count.
  test.each([
    ['Chain', ['src/stores/chain-store.ts']],
    ['Cycle', ['src/stores/cycle-store.ts']],
    ['InboxEvent', ['src/stores/inbox-store.ts']],
    ['Membership', ['src/stores/membership-store.ts']],
    ['FormerMember', ['src/stores/membership-store.ts']],
    ['Message', ['src/stores/message-store.ts']],
    ['Run', ['src/stores/run-store.ts']],
    ['RunSpace', ['src/stores/run-store.ts']],
    ['Outcome', ['src/stores/outcome-store.ts']],
    ['Space', ['src/stores/space-store.ts']],
    ['Plan', ['src/stores/plan-store.ts']],
    ['PlanFiring', ['src/stores/plan-store.ts']],
    ['FileText', ['src/stores/file-store.ts']],
    ['CopyOrigin', ['src/stores/copy-store.ts']],
    ['SpaceCreator', ['src/stores/space-store.ts']],
    ['Decision', ['src/stores/decision-store.ts']],
    ['ToolCall', ['src/stores/call-store.ts']],
    ['StandingGrant', ['src/stores/grant-store.ts']],
    ['GrantDecision', ['src/stores/grant-store.ts']],
  ])('the table %s has one writer', (table, writers) => {
    expect(touching([table], WRITING)).toEqual(writers)
  })

  test('each table is written by at most one store', () => {
    const written = (file: string) =>
      [...textOf(file).matchAll(/(?:INSERT INTO|UPDATE|DELETE FROM)\s+"(\w+)"/g)].map(([, table]) => table)
    const stores = files.filter((file) => file.startsWith('src/stores/'))
    const tables = stores.flatMap((file) => [...new Set(written(file))])
    expect(tables.length).toBeGreaterThan(3)
    expect(tables.filter((table, index) => tables.indexOf(table) !== index)).toEqual([])
  })

  test('only the hold throws RunLostError', () => {
    const throwing = files.filter((file) => file.startsWith('src/') && /new RunLostError/.test(textOf(file)))
    expect(throwing).toEqual(['src/runs/hold.ts'])
  })

  test('the settings are read in one place', () => {
    const readers = files.filter(
      (file) => file.startsWith('src/') && /process\s*\.\s*env|\benv\b.*node:process/.test(textOf(file)),
    )
    // libpq's own variables complete a URL of PostgreSQL.
    const allowed = ['src/config.ts', 'src/main.ts', 'src/lib/postgres-url.ts']
    expect(readers.filter((file) => !allowed.includes(file))).toEqual([])
  })
})
