import type { Response } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("the console's first load")
const MOST_BYTES = 250_000

describe.skipIf(!hasBrowser)('the first load of the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  test('transfers at most 250 kB, compressed, before a message shows and the composer works', async () => {
    const { human, space } = await parley.room('Iris')
    await parley.send(human, space.id, 'Hello!')
    const { page, message } = await openAs(human, `/spaces/${space.id}`)
    await message('Hello!').waitFor(PATIENCE)
    const debug = await page.context().newCDPSession(page)
    await debug.send('Network.enable')
    await debug.send('Network.setCacheDisabled', { cacheDisabled: true })
    const responses: Response[] = []
    page.on('response', (response) => responses.push(response))
    await page.reload()
    await message('Hello!').waitFor(PATIENCE)
    await page.getByRole('textbox', { name: 'Message' }).fill('Me too!')

    const files = await Promise.all(responses.map(fileOf))
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
    console.log(`first load: ${bytes} bytes of ${MOST_BYTES}`)
    for (const file of files) console.log(`  ${file.bytes} ${file.path}`)
    expect(files.filter(({ path, isZipped }) => path.startsWith('/console/') && !isZipped)).toEqual([])
    expect(files.some(({ path }) => path.endsWith('.js'))).toBe(true)
    expect(bytes).toBeLessThanOrEqual(MOST_BYTES)
  }, 90_000)
})

async function fileOf(response: Response): Promise<{ path: string; bytes: number; isZipped: boolean }> {
  await response.finished()
  const { responseBodySize } = await response.request().sizes()
  return {
    path: new URL(response.url()).pathname,
    bytes: responseBodySize,
    isZipped: (await response.allHeaders())['content-encoding'] === 'gzip',
  }
}
