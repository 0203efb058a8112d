import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

/**
 * Prints the test files of a vitest project that behave differently where PostgreSQL, Redis or Chromium is missing. These files
 * import, directly or through other helpers, a module that looks for one of the services, or contain the name of the stack
 * `postgres`. A file that only gets the list of stacks from `application.ts` runs there on the embedded stack, as it also does
 * on a CI machine. Such files are printed with `--all`.
 *
 *   node scripts/service-tests.ts [--all] <project> …
 */
const ROOT = path.resolve(import.meta.dirname, '..')
const LOOK_FOR_SERVICES = [
  'postgres',
  'redis',
  'throwaway-postgres',
  'throwaway-redis',
  'throwaway-cluster',
  'pgbouncer',
  'browser',
  'nginx',
].map((name) => path.join(ROOT, 'test/support', `${name}.ts`))
const LISTS_STACKS = path.join(ROOT, 'test/support/application.ts')
const NAMES_A_STACK = /'postgres'|'services'/

const found = new Map<string, boolean>()

/** Returns whether the module, or a module whose values it imports, looks for a service. */
function looksForServices(file: string): boolean {
  if (LOOK_FOR_SERVICES.includes(file)) return true
  const known = found.get(file)
  if (known !== undefined) return known
  // Ends the recursion for modules that import each other.
  found.set(file, false)
  const imports = importsOf(file).filter((imported) => imported !== LISTS_STACKS)
  const result = imports.some((imported) => looksForServices(imported))
  found.set(file, result)
  return result
}

/** Returns the modules below `test/` from which a module imports values. */
function importsOf(file: string): string[] {
  const specifiers = [
    ...readFileSync(file, 'utf8').matchAll(/^(?!import type).*?(?:from|import\() ?'(\.[^']+\.tsx?)'/gm),
  ]
  return specifiers
    .map(([, specifier = '']) => path.resolve(path.dirname(file), specifier))
    .filter((imported) => imported.startsWith(path.join(ROOT, 'test')) && existsSync(imported))
}

function testFilesOf(project: string): string[] {
  const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs')
  const json = execFileSync(process.execPath, [vitest, 'list', '--filesOnly', '--json', '--project', project], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return (JSON.parse(json.toString()) as { file: string }[]).map(({ file }) => file)
}

const [projects, all] = [process.argv.slice(2).filter((name) => name !== '--all'), process.argv.includes('--all')]
for (const file of projects.flatMap(testFilesOf)) {
  if (all || NAMES_A_STACK.test(readFileSync(file, 'utf8')) || looksForServices(file))
    console.log(path.relative(ROOT, file))
}
