import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '..')
const COMMAND = path.join(ROOT, 'bin/parley.cjs')
/** A Node older than the version that Parley requires, if the machine has one. */
const OLD_NODE = process.env['OLD_NODE'] ?? '/usr/bin/node'

interface Outcome {
  code: number
  stdout: string
  stderr: string
}

function run(program: string, given: string[]): Promise<Outcome> {
  return promisify(execFile)(program, given, { cwd: ROOT }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Outcome) => ({ code, stdout, stderr }),
  )
}

const parley = (...given: string[]) => run(process.execPath, [COMMAND, ...given])

describe('the command parley', () => {
  test.each([
    [['sreve'], 'Unknown command: sreve'],
    [['toString'], 'Unknown command: toString'],
    [['--port', '80'], 'Unknown option: --port'],
    [['serve', '--port', '80'], "parley serve: Unknown option '--port'"],
    [['serve', '80'], 'parley serve does not take the argument: 80'],
    [['migrate', '--force'], "parley migrate: Unknown option '--force'"],
    [['export'], 'parley export requires at least 1 argument, but none was given'],
    [['export', 'spc_1', 'file', 'another'], 'parley export does not take the argument: another'],
    [['export', '--out', 'file'], 'parley export requires at least 1 argument, but none was given'],
    [['import', '--dry'], "parley import: Unknown option '--dry'"],
    [['seed', 'http://localhost', 'twice'], 'parley seed does not take the argument: twice'],
    [['replay'], 'parley replay requires at least 1 argument, but none was given'],
    [['record', '--file', 'x'], "parley record: Unknown option '--file'"],
    [['rotate-secrets', '-x'], "parley rotate-secrets: Unknown option '-x'"],
  ])('refuses %j in one line before the usage', async (given, line) => {
    const { code, stdout, stderr } = await parley(...given)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr.split('\n').slice(0, 3)).toEqual([line, '', 'usage: parley [command]'])
  })

  test('prints its usage on request', async () => {
    for (const given of [['--help'], ['help'], ['export', '--help']]) {
      expect(await parley(...given)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^usage: parley/) })
    }
  })

  const REFUSAL = /^parley needs Node 22\.18 or newer, and this is Node 1?\d\.\S+\.\n$/

  test('on an old Node, prints in one line which version it needs', async () => {
    const pretend = `Object.defineProperty(process.versions, 'node', { value: '18.20.4' }); require(${JSON.stringify(COMMAND)})`
    const outcome = await run(process.execPath, ['-e', pretend])
    expect(outcome).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(REFUSAL) })
  })

  test.skipIf(!existsSync(OLD_NODE))('also prints the required version with the old Node of this machine', async () => {
    const { stdout: version } = await run(OLD_NODE, ['--version'])
    const [, major = ''] = /^v(\d+)\./.exec(version) ?? []
    const { code, stderr } = await run(OLD_NODE, [COMMAND, '--version'])
    if (Number(major) >= 24) expect(code).toBe(0)
    else if (Number(major) < 22) expect([code, stderr]).toEqual([1, expect.stringContaining('needs Node 22.18')])
  })
})
