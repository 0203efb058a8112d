// npm run docs: builds the documentation site into docs/.vitepress/dist; npm run docs:dev serves it. VitePress is a dependency of
// docs/package.json only, and is installed here the first time.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

function npm(...args: string[]): void {
  const { status } = spawnSync('npm', ['--prefix', 'docs', ...args], {
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  if (status !== 0) process.exit(status ?? 1)
}

const [script = 'build', ...args] = process.argv.slice(2)
if (!existsSync('docs/node_modules/vitepress')) npm('ci')
npm('run', script, '--', ...args)
