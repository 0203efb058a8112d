import sharp from 'sharp'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of files')

describe.skipIf(!hasBrowser)('files in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  test('a person picks a picture and a text, sends both, and sees them with a preview and a link', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    const { page } = await openAs(human, `/spaces/${space.id}`)
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    const picture = await sharp({ create: { width: 60, height: 40, channels: 3, background: '#396' } })
      .png()
      .toBuffer()
    await page.locator('input[type=file]').setInputFiles([
      { name: 'green.png', mimeType: 'image/png', buffer: picture },
      { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('Hello') },
    ])
    await page.getByRole('list', { name: 'Files of this message' }).getByText('notes.txt').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Send' }).click(PATIENCE)
    const preview = page.getByRole('button', { name: 'Enlarge green.png' })
    await preview.waitFor(PATIENCE)
    await page.waitForFunction(() => {
      const image = document.querySelector<HTMLImageElement>('.file.picture img')
      return image?.complete === true && image.naturalWidth > 0
    })
    expect(await page.getByRole('list', { name: 'Files of this message' }).count()).toBe(0)
    const link = page.getByRole('link', { name: /^notes\.txt/ })
    const loaded = await page.request.get(new URL((await link.getAttribute('href')) ?? '', page.url()).href)
    expect(await loaded.text()).toBe('Hello')
    await preview.click()
    await page.getByRole('dialog', { name: 'green.png' }).waitFor(PATIENCE)
  }, 90_000)
})
