// `npm ci` runs this script in a clone, after scripts/prepare.cjs has provided a Node that is new enough. It generates the
// types of operations, and builds the client, the console, and the template of the embedded database that a first start copies.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '..')
const PATH = [path.join(ROOT, 'node_modules/.bin'), process.env['PATH']].join(path.delimiter)

function run(command: string, ...options: string[]): void {
  const shell = process.platform === 'win32' && command !== process.execPath
  const { status, error } = spawnSync(command, options, {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, PATH },
    shell,
  })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}

if (existsSync(path.join(ROOT, 'node_modules/vite'))) {
  run(process.execPath, 'scripts/codegen.ts')
  run('tsc', '-p', 'client/tsconfig.build.json')
  run('vite', 'build', 'web')
} else if (!existsSync(path.join(ROOT, 'web/dist'))) {
  console.warn(
    'The console is not built. Run `npm ci && npm prune --omit=dev` to build it, or install the package that `npm pack` creates.',
  )
}
run(process.execPath, 'scripts/embedded-template.ts')
