import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '..')
const FOLDERS_THAT_SAY_NOTHING = ['utils', 'util', 'helpers', 'services', 'common', 'misc']

const files = ['src', 'client', 'web', 'examples', 'bench', 'scripts', 'test'].flatMap(sourcesIn)
const product = files.filter((file) => /^(src|client|web)\//.test(file))

/** TypeScript files under a folder that people wrote, as paths from the project's root. */
function sourcesIn(folder: string): string[] {
  const absolute = path.join(ROOT, folder)
  if (!existsSync(absolute)) return []
  return readdirSync(absolute, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((file) => !/(^|\/)(generated|__generated__|dist|node_modules)\//.test(file))
}

const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

describe('the house', () => {
  test('there is something to look at', () => {
    expect(product.length).toBeGreaterThan(10)
  })

  test('files and folders are named in kebab-case', () => {
    const kebab = /^[a-z0-9]+(-[a-z0-9]+)*(\.(test|config|d))?(\.tsx?)?$/
    expect(files.filter((file) => !file.split('/').every((part) => kebab.test(part)))).toEqual([])
  })

  test('no folder is a drawer for what found no name', () => {
    expect(files.filter((file) => file.split('/').some((part) => FOLDERS_THAT_SAY_NOTHING.includes(part)))).toEqual([])
  })

  /** Files of src/ whose statements touch one of the tables in such a way, as SQL or by Prisma's delegate. */
  function touching(tables: string[], how: { sql: string; prisma: string }): string[] {
    const delegates = tables.map((table) => table[0]?.toLowerCase() + table.slice(1))
    const statement = new RegExp(`${how.sql}"(${tables.join('|')})"|\\.(${delegates.join('|')})\\s*\\.${how.prisma}`)
    return files.filter((file) => file.startsWith('src/') && statement.test(textOf(file)))
  }
  const ANY = { sql: '', prisma: '' }
  const WRITING = {
    sql: '(INSERT INTO|UPDATE|DELETE FROM)\\s+',
    prisma: '(create|update|upsert|delete)',
  }

  test('spaces know nothing of runs, in their statements neither', () => {
    const tables = 'Run RunSpace Step ToolCall Decision Chain Cycle InboxEvent Plan PlanFiring'.split(' ')
    const ofRuns = touching(tables, ANY)
    expect(ofRuns.length).toBeGreaterThan(10)
    expect(ofRuns.filter((file) => file.startsWith('src/spaces/'))).toEqual([])
  })

  test('tool calls have one writer, in three files', () => {
    const writers = ['src/runs/calls-in-hand.ts', 'src/runs/tool-call-ends.ts', 'src/runs/tool-calls.ts']
    expect(touching(['ToolCall'], WRITING)).toEqual(writers)
  })

  test('only a hold says that a run is lost', () => {
    const throwing = files.filter((file) => file.startsWith('src/') && /new RunLostError/.test(textOf(file)))
    expect(throwing).toEqual(['src/runs/hold.ts'])
  })

  test('the settings are read in one place', () => {
    const readers = files.filter(
      (file) => file.startsWith('src/') && /process\s*\.\s*env|\benv\b.*node:process/.test(textOf(file)),
    )
    expect(readers.filter((file) => file !== 'src/config.ts' && file !== 'src/main.ts')).toEqual([])
  })
})
