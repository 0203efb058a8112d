import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { heapUsed } from '../support/heap.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const MEBIBYTE = 1024 * 1024

describe('documents of 16 KiB', () => {
  let parley: TestServer
  let authorization: string
  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded', worker: false, settings: { PARLEY_RATE_REQUESTS: '0' } })
    authorization = `Bearer ${await parley.tokenOf(await parley.human('Ada'))}`
  })
  afterAll(() => parley?.close())

  async function ask(query: string) {
    const response = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ query }),
    })
    return { status: response.status, ...((await response.json()) as { data?: object; errors?: object[] }) }
  }
  const refused = (n: number) => `{viewer{${'id '.repeat(4970)}}nothing}#${n}`
  const accepted = (n: number) => `{nodes(ids:[${'123 '.repeat(4000)}]){id}}#${n}`

  test('use almost no memory if refused, and limited memory if accepted', async () => {
    expect((await ask(refused(0))).status).toBe(400)
    expect((await ask(accepted(0))).status).toBe(200)
    const before = heapUsed()
    for (let n = 1; n <= 200; n++) await ask(refused(n))
    expect(heapUsed() - before).toBeLessThan(8 * MEBIBYTE)
    for (let n = 1; n <= 60; n++) expect((await ask(accepted(n))).errors).toBeUndefined()
    expect(heapUsed() - before).toBeLessThan(12 * MEBIBYTE)
  })

  test('get the same response the second time, without parsing', async () => {
    const [first, second] = [await ask(accepted(1000)), await ask(accepted(1000))]
    expect(second).toEqual(first)
    expect(await ask(refused(1000))).toEqual(await ask(refused(1000)))
  })
})
