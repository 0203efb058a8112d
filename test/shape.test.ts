import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '..')
const MOST_LINES_OF_A_FILE = 300
const MOST_LINES_OF_A_FUNCTION = 50
const FOLDERS_THAT_SAY_NOTHING = ['utils', 'util', 'helpers', 'services', 'common', 'misc']

const files = ['src', 'web', 'bench', 'scripts', 'test'].flatMap(sourcesIn)
const product = files.filter((file) => /^(src|web)\//.test(file))

/** TypeScript files under a folder that people wrote, as paths from the project's root. */
function sourcesIn(folder: string): string[] {
  const absolute = path.join(ROOT, folder)
  if (!existsSync(absolute)) return []
  return readdirSync(absolute, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((file) => !/(^|\/)(generated|dist|node_modules)\//.test(file))
}

const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

/**
 * Functions with more lines of their own than allowed, as `file:line name lines`. The lines of a function that stands
 * within another are its own and not the outer one's: a `createX` that returns closures is as long as what is left.
 */
function longFunctionsOf(file: string): string[] {
  const source = ts.createSourceFile(file, textOf(file), ts.ScriptTarget.Latest, true)
  const lineOf = (position: number) => source.getLineAndCharacterOfPosition(position).line
  const long: string[] = []
  /** Answers with the number of lines under `node` that belong to functions. */
  function visit(node: ts.Node): number {
    let inner = 0
    ts.forEachChild(node, (child) => {
      inner += visit(child)
    })
    if (!ts.isFunctionLike(node) || !('body' in node) || !node.body) return inner
    const first = lineOf(node.getStart(source))
    const lines = lineOf(node.end) - first + 1
    if (lines - inner > MOST_LINES_OF_A_FUNCTION) {
      long.push(`${file}:${first + 1} ${node.name?.getText(source) ?? 'a function'} ${lines - inner}`)
    }
    return lines > 1 ? lines - 1 : 0
  }
  visit(source)
  return long
}

describe('the house', () => {
  test('there is something to look at', () => {
    expect(product.length).toBeGreaterThan(10)
  })

  test(`no file of the product has more than ${MOST_LINES_OF_A_FILE} lines`, () => {
    const linesOf = (file: string) => textOf(file).trimEnd().split('\n').length
    expect(product.filter((file) => linesOf(file) > MOST_LINES_OF_A_FILE)).toEqual([])
  })

  test(`no function of the product has more than ${MOST_LINES_OF_A_FUNCTION} lines of its own`, () => {
    expect(product.flatMap(longFunctionsOf)).toEqual([])
  })

  test('files and folders are named in kebab-case', () => {
    const kebab = /^[a-z0-9]+(-[a-z0-9]+)*(\.(test|config|d))?(\.tsx?)?$/
    expect(files.filter((file) => !file.split('/').every((part) => kebab.test(part)))).toEqual([])
  })

  test('no folder is a drawer for what found no name', () => {
    expect(files.filter((file) => file.split('/').some((part) => FOLDERS_THAT_SAY_NOTHING.includes(part)))).toEqual([])
  })

  test('the settings are read in one place', () => {
    const readers = files.filter(
      (file) => file.startsWith('src/') && /process\s*\.\s*env|\benv\b.*node:process/.test(textOf(file)),
    )
    expect(readers.filter((file) => file !== 'src/config.ts' && file !== 'src/main.ts')).toEqual([])
  })

  test.each([
    ['imports follow the arrows, without a circle', 'check:arrows'],
    ['schema.graphql is what src/schema says', 'check:schema'],
    ['schema.graphql keeps the contract', 'check:contract'],
  ])('%s', async (_, script) => {
    const run = promisify(execFile)('npm', ['run', '--silent', script], { cwd: ROOT })
    const outcome = run.then(
      () => 'holds',
      (error) => `${error.stdout}${error.stderr}`,
    )
    expect(await outcome).toBe('holds')
  })
})
