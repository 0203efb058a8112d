import dgram from 'node:dgram'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { expect, test } from 'vitest'
import { blockNetwork, NetworkBlockedError } from '../../src/replay/no-network.ts'
import { hasPostgres } from '../support/postgres.ts'

test('a process with a network block opens no connection, names what was tried, and connects again afterwards', async () => {
  const server = createServer((_, response) => response.end('ok'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const outer = blockNetwork()
  const inner = blockNetwork()
  const socket = dgram.createSocket('udp4')
  try {
    await expect(fetch(url)).rejects.toThrow()
    inner.unblock()
    inner.unblock()
    await expect(fetch(url)).rejects.toThrow()
    expect(() => socket.send('x', 9, '127.0.0.1')).toThrow(NetworkBlockedError)
    expect(outer.attempts.length + inner.attempts.length).toBeGreaterThan(1)
  } finally {
    outer.unblock()
    socket.close()
  }
  expect(await (await fetch(url)).text()).toBe('ok')
  server.closeAllConnections()
  server.close()
})

test('a connection pool continues after a block, and closes', async ({ skip }) => {
  if (!hasPostgres) skip()
  const pool = new pg.Pool({ connectionString: process.env['TEST_DATABASE_URL'], max: 1 })
  const network = blockNetwork()
  try {
    await expect(pool.query('SELECT 1')).rejects.toThrow(NetworkBlockedError)
  } finally {
    network.unblock()
  }
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  await pool.end()
})
