import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { modelFetch } from '../../src/models/model-fetch.ts'

const MEBIBYTE = Buffer.alloc(1024 * 1024)
const closing: (() => void)[] = []

/** Starts a provider that sends this many MiB, or never stops. `left` resolves when the client has disconnected. */
async function providerOf(mebibytes: number) {
  const { promise: left, resolve } = Promise.withResolvers<void>()
  const server = createServer((_, response) => {
    response.on('close', resolve)
    let sent = 0
    const send = () => {
      while (sent < mebibytes) if (++sent && !response.write(MEBIBYTE)) return void response.once('drain', send)
      response.end()
    }
    send()
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  closing.push(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, left }
}

afterEach(() => {
  for (const close of closing.splice(0)) close()
})

test('a response passes unchanged', async () => {
  const { url } = await providerOf(3)
  expect((await (await modelFetch(url)).arrayBuffer()).byteLength).toBe(3 * MEBIBYTE.byteLength)
})

test('an endless response is cut off, and its connection closed', async () => {
  const { url, left } = await providerOf(Number.POSITIVE_INFINITY)
  await expect((await modelFetch(url)).arrayBuffer()).rejects.toThrow('The provider sent more than 64 MiB.')
  await left
})

test('a reader that stops closes the connection', async () => {
  const { url, left } = await providerOf(Number.POSITIVE_INFINITY)
  await (await modelFetch(url)).body?.cancel()
  await left
})
