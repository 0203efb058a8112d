import { once } from 'node:events'
import { createServer } from 'node:net'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { checkAddress } from '../../src/server/http/listening.ts'
import { freePort } from '../support/free-port.ts'
import { until } from '../support/until.ts'

/**
 * Keeps trying to connect, as a proxy under load does. When asked, posts how many connections succeeded and were refused so
 * far.
 */
const PROXY = `
  const { connect } = require('node:net')
  const { parentPort, workerData: port } = require('node:worker_threads')
  const counts = { connected: 0, refused: 0 }
  parentPort.on('message', () => parentPort.postMessage(counts))
  const attempt = () => new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => { counts.connected += 1; socket.destroy() })
    socket.on('error', () => { counts.refused += 1 })
    socket.on('close', resolve)
  })
  const go = async () => { for (;;) await attempt() }
  for (let n = 0; n < 8; n++) void go()`

describe('a process that starts', () => {
  test('accepts no connection before it can answer', async () => {
    const port = await freePort()
    const proxy = new Worker(PROXY, { eval: true, workerData: port })
    const counts = async (): Promise<{ connected: number; refused: number }> => {
      const answered = once(proxy, 'message')
      proxy.postMessage(null)
      return (await answered)[0]
    }
    await until('the proxy tries to connect', async () => (await counts()).refused > 100)
    for (let n = 0; n < 300; n++) await checkAddress({ host: '127.0.0.1', port })
    const { connected, refused } = await counts()
    await proxy.terminate()
    expect(refused).toBeGreaterThan(100)
    expect(connected).toBe(0)
  })

  test('reports a port in use, and a host of another machine', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as { port: number }
    const address = { host: '127.0.0.1', port }
    await expect(checkAddress(address)).rejects.toThrow(`PORT: 127.0.0.1:${port} is in use`)
    await expect(checkAddress({ host: '0.0.0.0', port })).rejects.toThrow('is in use')
    await expect(checkAddress({ host: '192.0.2.1', port })).rejects.toThrow(`HOST: cannot listen on 192.0.2.1:${port}`)
    other.close()
    await once(other, 'close')
    await checkAddress(address)
  })
})
