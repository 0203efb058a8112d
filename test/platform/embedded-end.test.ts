import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/platform/db.ts'
import { createTestDataDirectory } from '../support/pglite.ts'

test('closing the embedded database waits for the running transaction, and refuses later statements', async () => {
  const directory = await createTestDataDirectory()
  try {
    const db = await openDatabase({ url: null, dataDirectory: directory.path })
    const { promise: isRunning, resolve: run } = Promise.withResolvers<void>()
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    const order: string[] = []
    const transaction = db
      .transaction(async (tx) => {
        await tx.entity.count()
        run()
        await mayEnd
        await tx.entity.count()
      })
      .then(() => order.push('transaction'))
    await isRunning
    const closed = db.close().then(() => order.push('closed'))
    const late = db.prisma.entity.count().then(String, (error: Error) => error.message)
    end()
    await Promise.all([transaction, closed])
    expect(order).toEqual(['transaction', 'closed'])
    expect(await late).toContain('The database is closed.')
    await expect(db.prisma.entity.count()).rejects.toThrow(/closed/)
  } finally {
    await directory.remove()
  }
})

/** Crashes the WebAssembly of a database by removing the function with which it reads messages. */
const CRASH = `
  import { PGlite } from '@electric-sql/pglite'
  import { exitOnCrash } from './src/platform/embedded-crash.ts'
  const pglite = await PGlite.create(process.argv[1])
  exitOnCrash(pglite)
  await pglite.query('SELECT 1 / 0').catch(({ message }) => console.log(message))
  await pglite.close()
  await pglite.execProtocolRaw(Uint8Array.of(83, 0, 0, 0, 4))
  console.log('unreachable')
`

test('a crash of the embedded database ends the process with one line; an error of a statement does not', async () => {
  const directory = await createTestDataDirectory()
  try {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--input-type=module', '-e', CRASH, path.join(directory.path, 'database')],
      { encoding: 'utf8', timeout: 60_000 },
    )
    expect([status, stdout.trim()]).toEqual([1, 'division by zero'])
    expect(stderr).toMatch(/^The embedded database crashed, so the server stops\. Start it again\. .*\n$/)
  } finally {
    await directory.remove()
  }
})
