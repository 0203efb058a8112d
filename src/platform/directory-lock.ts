import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeDataDirectory } from './data-directory.ts'

/** Another living process holds the directory. */
export class DirectoryBusyError extends Error {
  constructor(directory: string, pid: number) {
    super(`DATA_DIR: the process ${pid} uses ${directory}; stop it, or give this one a directory of its own`)
    this.name = 'DirectoryBusyError'
  }
}

/** When a process started, in clock ticks since boot: tells it from a later one with the same number. Linux only; else null. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null
  } catch {
    return null
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Takes a directory for this process: two PGlites on one directory destroy it. The lock of a dead process is taken over.
 * @returns a function that gives the directory back.
 * @throws DirectoryBusyError while another process holds it.
 */
export function lockDirectory(directory: string): () => void {
  makeDataDirectory(directory)
  const file = path.join(directory, 'lock')
  const mine = `${process.pid} ${startOf(process.pid) ?? ''}`
  for (;;) {
    try {
      writeFileSync(file, mine, { flag: 'wx' })
      return () => rmSync(file, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const held = readFileSync(file, 'utf8')
    const [pid = '', start = ''] = held.split(' ')
    const sameProcess = start === '' || startOf(Number(pid)) === start
    if (held !== mine && Number(pid) !== process.pid && isAlive(Number(pid)) && sameProcess) {
      throw new DirectoryBusyError(directory, Number(pid))
    }
    rmSync(file, { force: true })
  }
}
