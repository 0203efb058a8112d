import { execFile, execFileSync } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { findPostgresBinaries } from './throwaway-postgres.ts'

const MODULE = path.join(import.meta.dirname, 'throwaway-postgres.ts')
const UNSHARE = '/usr/bin/unshare'
const OPEN_ONE = `
  import pg from 'pg'
  import { openThrowawayPostgres } from ${JSON.stringify(MODULE)}
  const server = await openThrowawayPostgres()
  if (server !== null) {
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    console.log((await client.query('SELECT 1 AS answer')).rows[0])
    await client.end()
    await server.dispose()
  }`

/** Runs in a user namespace whose only id is root, as in a rootless container. */
async function inRootlessContainer(environment: Record<string, string>): Promise<{ stdout: string; stderr: string }> {
  const args = ['--map-root-user', process.execPath, '--input-type=module', '-e', OPEN_ONE]
  const env = { ...process.env, CI: '', ...environment }
  return promisify(execFile)(UNSHARE, args, { env, cwd: import.meta.dirname })
}

function canUnshare(): boolean {
  try {
    execFileSync(UNSHARE, ['--map-root-user', UNSHARE, '--user', '--map-user=1000', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

describe.skipIf(findPostgresBinaries() === null || !canUnshare())('a PostgreSQL server of a single test', () => {
  test('starts for the root user of a rootless container', async () => {
    expect((await inRootlessContainer({})).stdout).toBe('{ answer: 1 }\n')
  })

  test('is skipped with a warning if it does not start, and on CI that is a failure', async () => {
    // Without `unshare` on the PATH, it would have to run as root, which PostgreSQL refuses.
    const PATH = path.dirname(process.execPath)
    const { stdout, stderr } = await inRootlessContainer({ PATH })
    expect(stdout).toBe('')
    expect(stderr).toMatch(/!!! No PostgreSQL server can be started here: .*: its tests are SKIPPED/)
    await expect(inRootlessContainer({ PATH, CI: 'true' })).rejects.toThrow(/on CI its tests must run/)
  })
})
