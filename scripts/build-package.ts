// `npm pack` runs this script. It builds the package `parley` in dist/: the folders of the clone, with JavaScript instead of TypeScript.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, globSync, rmSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '..')
const DIST = path.join(ROOT, 'dist')
/** The files, other than TypeScript, that the server or a command reads. */
const FILES = ['prisma/migrations', ...globSync('src/generated/**/{*.mjs,LICENSE}', { cwd: ROOT })]

for (const needed of ['generated/gql.ts', 'node_modules/.bin/tsc']) {
  if (existsSync(path.join(ROOT, needed))) continue
  console.error(`There is no ${needed}: run \`npm ci\` first.`)
  process.exit(1)
}
rmSync(DIST, { recursive: true, force: true })
// Builds the console again into dist/, because web/dist may be older than the sources, or in use by a running server.
run('vite', 'build', 'web', '--outDir', path.join(DIST, 'web/dist'), '--emptyOutDir')
run('tsc', '-p', 'tsconfig.package.json')
for (const file of FILES) cpSync(path.join(ROOT, file), path.join(DIST, file), { recursive: true })

function run(command: string, ...options: string[]): void {
  const isWindows = process.platform === 'win32'
  const program = path.join(ROOT, 'node_modules/.bin', isWindows ? `${command}.cmd` : command)
  const { status, error } = spawnSync(program, options, { cwd: ROOT, stdio: 'inherit', shell: isWindows })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
