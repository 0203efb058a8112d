// npm run check: runs all check scripts one after the other, even if one fails.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
const checks = Object.keys(scripts).filter((name) => name.startsWith('check:'))
const failed = checks.filter((name) => {
  console.log(`\n— ${name}`)
  return (
    spawnSync('npm', ['run', '--silent', name], { stdio: 'inherit', shell: process.platform === 'win32' }).status !== 0
  )
})
console.log(failed.length === 0 ? `\nall ${checks.length} checks passed` : `\nfailed: ${failed.join(', ')}`)
process.exitCode = failed.length === 0 ? 0 : 1
