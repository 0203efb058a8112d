import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DirectoryBusyError, lockDirectory } from '../../src/platform/directory-lock.ts'
import { until } from '../support/until.ts'

const HOLDER = path.resolve(import.meta.dirname, '../support/lock-holder.ts')
/** The server has the same pid in every container. */
const OWN_PIDS = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']
const hasNamespaces = spawnSync(OWN_PIDS[0] ?? '', [...OWN_PIDS.slice(1), 'true']).status === 0
if (!hasNamespaces) console.warn('\n!!! No pid namespaces here: what containers do to one DATA_DIR is SKIPPED.\n')

describe('the lock of a data directory', () => {
  let directory: string
  const children: ChildProcess[] = []

  beforeEach(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'parley-lock-'))
  })
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    await rm(directory, { recursive: true, force: true })
  })

  /** Starts another process that tries to lock the directory. It reports that it has the lock, or why it could not get it. */
  async function start(...wrapper: string[]) {
    const [program = '', ...rest] = [...wrapper, process.execPath, HOLDER, directory]
    const child = spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const lines = createInterface({ input: child.stdout })
    const [said] = (await once(lines, 'line')) as [string]
    return { child, said }
  }

  const HELD = /^held by \d+$/
  const BUSY = expect.stringMatching(/^DATA_DIR: another process uses .*; stop it/)

  test('excludes another process until it is released', async () => {
    const release = lockDirectory(directory)
    expect((await start()).said).toEqual(BUSY)
    release()
    release()
    expect((await start()).said).toMatch(HELD)
    expect(() => lockDirectory(directory)).toThrow(DirectoryBusyError)
  })

  test('excludes a second use in the same process', () => {
    const release = lockDirectory(directory)
    expect(() => lockDirectory(directory)).toThrow(DirectoryBusyError)
    release()
    lockDirectory(directory)()
  })

  test.skipIf(!hasNamespaces)('works between containers in which both processes have the same pid', async () => {
    const first = await start(...OWN_PIDS)
    expect(first.said).toMatch(HELD)
    expect((await start(...OWN_PIDS)).said).toEqual(BUSY)
    first.child.kill('SIGKILL')
    expect((await start(...OWN_PIDS)).said).toMatch(HELD)
  })

  test('is free immediately after its holder was killed', async () => {
    const { child } = await start()
    child.kill('SIGKILL')
    expect((await start()).said).toMatch(HELD)
  })

  test('is free after its holder became a zombie', async () => {
    // The shell replaces itself with a program that does not wait for its children.
    const { said } = await start('sh', '-c', '"$0" "$@" & exec sleep 1000')
    const pid = Number(said.split(' ').at(-1))
    process.kill(pid, 'SIGKILL')
    await until('it is a zombie', () => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z '))
    expect((await start()).said).toMatch(HELD)
  })

  test('stays with a holder that hangs', async () => {
    const { child } = await start()
    child.kill('SIGSTOP')
    expect((await start()).said).toEqual(BUSY)
  })

  test('goes to one of many processes that start concurrently in a dead holder’s directory', async () => {
    const { child } = await start()
    child.kill('SIGKILL')
    const said = (await Promise.all(Array.from({ length: 6 }, () => start()))).map((one) => one.said)
    expect(said.filter((line) => HELD.test(line))).toHaveLength(1)
  })
})
