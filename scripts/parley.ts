// The command `parley`: `npx parley` serves, `npx parley <command>` does what `npm run <command>` does in a clone. Each command is a script of
// its own beside this one; what a command does not take is refused here.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'

interface Command {
  /** What it takes, as the usage shows it. */
  takes: string
  does: string
  options?: ParseArgsConfig['options']
  /** How many arguments it takes at least and at most. */
  least?: number
  most?: number
  run(): Promise<unknown>
}

const COMMANDS: Record<string, Command> = {
  serve: {
    takes: '',
    does: 'serve the API and the console (what `parley` alone does)',
    run: () => import('../src/main.ts'),
  },
  migrate: {
    takes: '',
    does: 'apply the migrations of this version to the database',
    run: () => import('./migrate.ts'),
  },
  seed: {
    takes: '[url]',
    does: 'make a demo space on a running server',
    most: 1,
    run: () => import('./seed.ts'),
  },
  export: {
    takes: '<space id> [file]',
    does: 'write a space as JSON lines',
    least: 1,
    most: 2,
    run: () => import('./export.ts'),
  },
  import: {
    takes: '[--dry-run] [--trust-external-ids] [file]',
    does: 'read a space that `parley export` wrote',
    options: { 'dry-run': { type: 'boolean' }, 'trust-external-ids': { type: 'boolean' } },
    most: 1,
    run: () => import('./import.ts'),
  },
  'rotate-secrets': {
    takes: '',
    does: 'encrypt the stored secrets with the new PARLEY_SECRET_KEY',
    run: () => import('./rotate-secrets.ts'),
  },
}

const USAGE = [
  'usage: parley [command]',
  '',
  ...Object.entries(COMMANDS).map(([name, { takes, does }]) => `  ${`${name} ${takes}`.padEnd(52)}${does}`),
  `  ${'--help, --version'.padEnd(52)}print this, or the version`,
  '',
  'Every command reads its settings from the environment.',
].join('\n')

const [name = 'serve', ...given] = process.argv.slice(2)
if (name === '--help' || name === '-h' || name === 'help') console.log(USAGE)
else if (name === '--version' || name === '-v') console.log(version())
else {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command === undefined) {
    refuse(`Unknown ${name.startsWith('-') ? 'option' : 'command'}: ${name}`)
  } else if (given.includes('--help') || given.includes('-h')) {
    console.log(USAGE)
  } else {
    const problem = problemOf(name, command, given)
    if (problem !== null) refuse(problem)
    else {
      // The command's script reads its arguments where Node puts them for a script that is started by itself.
      process.argv.splice(2, 1)
      await command.run()
    }
  }
}

/** What is wrong with a command's arguments, in one line; null when nothing is. */
function problemOf(name: string, { options = {}, least = 0, most = 0 }: Command, args: string[]): string | null {
  try {
    const { positionals } = parseArgs({ args, options, allowPositionals: true })
    if (positionals.length < least) return `parley ${name} takes at least ${least} argument, and none is given`
    if (positionals.length > most) return `parley ${name} does not take the argument: ${positionals[most]}`
    return null
  } catch (error) {
    const [line = ''] = (error as Error).message.split(/\. To specify|\n/)
    return `parley ${name}: ${line}`
  }
}

function refuse(problem: string): void {
  console.error(`${problem}\n\n${USAGE}`)
  process.exitCode = 2
}

/** The version in package.json, which lies one folder above a clone's scripts/ and two above the package's dist/scripts/. */
function version(): string {
  const root = path.resolve(import.meta.dirname, import.meta.filename.endsWith('.ts') ? '..' : '../..')
  return (JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string }).version
}
