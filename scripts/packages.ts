import { type StdioOptions, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '..')

/** A package of this repository that has its own dependencies, which `npm ci` at the root does not install. */
export type OwnPackage = 'tools' | 'examples' | 'bench' | 'prisma' | 'docs' | 'kits' | FrontEnd
/** The examples that need so many packages that they do not share those of the other examples. */
export const FRONT_ENDS = ['examples/copilotkit', 'examples/assistant-ui'] as const
type FrontEnd = (typeof FRONT_ENDS)[number]

const stampOf = (folder: OwnPackage) => path.join(ROOT, folder, 'node_modules/.installed')

function lockHashOf(folder: OwnPackage): string {
  return createHash('sha256')
    .update(readFileSync(path.join(ROOT, folder, 'package-lock.json')))
    .digest('hex')
}

/** Returns whether the installed dependencies of the package match its lock file. */
export function isInstalled(folder: OwnPackage): boolean {
  return existsSync(stampOf(folder)) && readFileSync(stampOf(folder), 'utf8') === lockHashOf(folder)
}

/**
 * Installs the dependencies of the package, if they are missing or outdated. npm's output goes to standard error. @throws if
 * npm fails
 */
export function install(folder: OwnPackage): void {
  if (isInstalled(folder)) return
  console.error(`installing the packages of ${folder}/ …`)
  const options = ['ci', '--no-audit', '--prefix', path.join(ROOT, folder)]
  if (run('npm', options, { stdio: ['inherit', 2, 2] }) !== 0) throw new Error(`npm ci failed in ${folder}/`)
  writeFileSync(stampOf(folder), lockHashOf(folder))
}

/**
 * Returns whether an optional package is installed. On a CI machine, installs it. Elsewhere, prints a warning with the work
 * that is skipped.
 */
export function isAvailable(folder: OwnPackage, skipped: string): boolean {
  if (process.env['CI'] === 'true') install(folder)
  const isThere = isInstalled(folder)
  if (!isThere) console.warn(`!!! SKIPPED: ${skipped}. \`npm run setup -- ${folder}\` installs the packages for it.`)
  return isThere
}

/** Runs a command at the root, with the programs of the package and of the root on the PATH. Returns the exit code. */
export function runWith(folder: OwnPackage, command: string, options: readonly string[], cwd = ROOT): number {
  return run(command, options, { cwd, programsOf: [folder] })
}

function run(
  command: string,
  options: readonly string[],
  {
    cwd = ROOT,
    programsOf = [],
    stdio = 'inherit',
  }: { cwd?: string; programsOf?: OwnPackage[]; stdio?: StdioOptions } = {},
): number {
  const folders = programsOf.map((folder) => path.join(ROOT, folder, 'node_modules/.bin'))
  const PATH = [...folders, path.join(ROOT, 'node_modules/.bin'), process.env['PATH']].join(path.delimiter)
  const isWindows = process.platform === 'win32'
  const { status, error } = spawnSync(command, options, {
    cwd,
    stdio,
    env: { ...process.env, PATH },
    shell: isWindows,
  })
  if (error) throw error
  return status ?? 1
}
