// The command `parley`: `npx parley` starts the server, and `npx parley <command>` does the same as `npm run <command>` in a
// clone. Each command is a script in this folder. This script rejects unknown commands and arguments before it starts a
// command.
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { BACKTEST_OPTIONS, EXPORT_OPTIONS } from './command-options.ts'
import { releaseOf } from './release.ts'

interface Command {
  /** The arguments, as the usage shows them. */
  takes: string
  does: string
  options?: ParseArgsConfig['options']
  /** The smallest and the largest number of positional arguments. */
  least?: number
  most?: number
  /** The option that may be given in place of the first positional argument. */
  replacing?: string
  run(): Promise<unknown>
}

const COMMANDS: Record<string, Command> = {
  serve: {
    takes: '',
    does: 'serve the API and the console; the default command',
    run: () => import('../src/main.ts'),
  },
  migrate: {
    takes: '',
    does: 'apply the migrations of this version to the database',
    run: () => import('./migrate.ts'),
  },
  seed: {
    takes: '[url]',
    does: 'create a demo space on a running server',
    most: 1,
    run: () => import('./seed.ts'),
  },
  export: {
    takes: '--space <id> [--out <file>]',
    does: 'write a space as JSON lines',
    options: EXPORT_OPTIONS,
    least: 1,
    replacing: 'space',
    most: 2,
    run: () => import('./export.ts'),
  },
  import: {
    takes: '[--dry-run] [--trust-external-ids] [file]',
    does: 'write a space from an export to the database',
    options: { 'dry-run': { type: 'boolean' }, 'trust-external-ids': { type: 'boolean' } },
    most: 1,
    run: () => import('./import.ts'),
  },
  record: {
    takes: '--space <id> --out <file>',
    does: 'write a recording of a space, for replays',
    options: { space: { type: 'string' }, out: { type: 'string' } },
    run: () => import('./record.ts'),
  },
  replay: {
    takes: '<file>…',
    does: 'replay recordings offline, and report the first difference',
    least: 1,
    most: Number.POSITIVE_INFINITY,
    run: () => import('./replay.ts'),
  },
  backtest: {
    takes: '<file>… --set agent.<id>.<field>=<value>…',
    does: 'replay recordings with changed agents',
    options: BACKTEST_OPTIONS,
    least: 1,
    most: Number.POSITIVE_INFINITY,
    run: () => import('./backtest.ts'),
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
  'All commands read their settings from environment variables.',
].join('\n')

const [name = 'serve', ...given] = process.argv.slice(2)
if (name === '--help' || name === '-h' || name === 'help') console.log(USAGE)
else if (name === '--version' || name === '-v') console.log(releaseOf())
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
      // The script of the command expects its arguments at the same index as when Node starts it directly.
      process.argv.splice(2, 1)
      await command.run()
    }
  }
}

/** Returns one line about the first invalid argument of a command, or null if all are valid. */
function problemOf(name: string, command: Command, args: string[]): string | null {
  const { options = {}, least = 0, most = 0, replacing } = command
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    const isReplaced = replacing !== undefined && values[replacing] !== undefined
    if (positionals.length < least && !isReplaced)
      return `parley ${name} requires at least ${least} argument, but none was given`
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
