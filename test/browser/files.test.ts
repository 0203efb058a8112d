import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Locator, Page } from 'playwright-core'
import sharp from 'sharp'
import { describe, expect, test, vi } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

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
    const added = page.locator('.composer-box').getByRole('list', { name: 'Files of this message' })
    await added.getByText('notes.txt').waitFor(PATIENCE)
    await added.getByRole('listitem').filter({ hasText: 'green.png' }).locator('canvas').waitFor(PATIENCE)
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
    expect(await link.innerText()).toBe('notes.txt')
    await page.locator('.file-frame').getByText('· 5 B').waitFor(PATIENCE)
    const leftOf = async (place: Locator) => (await place.boundingBox())?.x
    expect(await leftOf(preview.getByRole('img'))).toBe(await leftOf(page.getByRole('link', { name: 'green.png' })))
    await preview.click()
    await page.getByRole('dialog', { name: 'green.png' }).waitFor(PATIENCE)
  }, 90_000)

  const GREEN = { create: { width: 60, height: 40, channels: 3, background: '#396' } } as const
  /** Dispatches an event with a file, as the browser does for a drop or a paste. */
  const give = (page: Page, selector: string, event: 'drop' | 'paste', name: string, text: string) =>
    page.evaluate(`(() => {
      const data = new DataTransfer()
      data.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}, { type: 'text/plain' }))
      const how = { bubbles: true, cancelable: true, dataTransfer: data, clipboardData: data }
      const at = document.querySelector(${JSON.stringify(selector)})
      return at.dispatchEvent(new ${event === 'drop' ? 'DragEvent' : 'ClipboardEvent'}('${event}', how))
    })()`)

  test('a file is dropped on the conversation or pasted, and uploaded again after a failure', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Shed' })
    await parley.send(human, space.id, 'Spades and forks')
    const { page } = await openAs(human, `/spaces/${space.id}`, {}, { mayComplain: true })
    await page.getByText('Spades and forks', { exact: true }).waitFor(PATIENCE)
    const list = page.getByRole('list', { name: 'Files of this message' })
    // The browser would open a file that is dropped where nothing accepts it.
    expect(await give(page, '.timeline', 'drop', 'dropped.txt', 'one')).toBe(false)
    await list.getByText('dropped.txt').waitFor(PATIENCE)
    await page.route('**/files', (route) => route.abort(), { times: 1 })
    await give(page, '.composer textarea', 'paste', 'pasted.txt', 'two')
    await list.getByRole('alert').getByText('The server does not respond.').waitFor(PATIENCE)
    await list.getByRole('button', { name: 'Upload pasted.txt again' }).click(PATIENCE)
    await list.getByRole('alert').waitFor({ ...PATIENCE, state: 'detached' })
    await give(page, '.timeline', 'drop', 'removed.txt', 'three')
    await list.getByRole('button', { name: 'Remove removed.txt' }).click(PATIENCE)
    await page.getByRole('button', { name: 'Send' }).click(PATIENCE)
    const message = page.getByRole('article').filter({ hasText: 'pasted.txt' })
    await message.getByText('dropped.txt').waitFor(PATIENCE)
    expect(await page.getByText('removed.txt').count()).toBe(0)
  }, 90_000)

  test('on a phone: the large view of a picture, and the files of a space, newest first', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Barn' })
    const { files, sending } = parley.app.domain
    for (let n = 1; n <= 22; n++) {
      const [name, content] =
        n === 22 ? ['green.png', await sharp(GREEN).png().toBuffer()] : [`note ${n}.txt`, Buffer.from(`Note ${n}`)]
      const { id } = await files.upload(human, { name, body: Readable.from([content]), bytes: null })
      await sending.send(human, { spaceId: space.id, text: '', fileIds: [id] })
    }
    const { page, violations } = await openAs(human, `/spaces/${space.id}`, { width: 360, height: 740 })
    const preview = page.getByRole('button', { name: 'Enlarge green.png' })
    await preview.click(PATIENCE)
    const large = page.getByRole('dialog', { name: 'green.png' })
    await large.getByRole('img', { name: 'green.png' }).waitFor(PATIENCE)
    await until('the picture has loaded', () =>
      page.evaluate<boolean>('document.querySelector(".enlarged")?.naturalWidth > 0'),
    )
    expect(await violations()).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    await page.keyboard.press('Escape')
    await large.waitFor({ ...PATIENCE, state: 'detached' })

    await page.getByRole('button', { name: /members, details/ }).click(PATIENCE)
    const about = page.getByRole('dialog', { name: 'About Barn' })
    await about.getByText('Files of this space').click(PATIENCE)
    const listed = about.getByRole('list', { name: 'Files' }).getByRole('link')
    await expect.poll(() => listed.count(), PATIENCE).toBe(20)
    expect(await listed.first().innerText()).toContain('green.png')
    expect(await violations()).toEqual([])
    expect(await page.evaluate('document.querySelector(".dialog-body").scrollWidth <= innerWidth')).toBe(true)
    await about.getByRole('button', { name: 'Older files' }).click(PATIENCE)
    await expect.poll(() => listed.count(), PATIENCE).toBe(22)
    expect(await listed.last().innerText()).toContain('note 1.txt')
    const [download] = await Promise.all([page.waitForEvent('download'), listed.last().click()])
    expect(download.suggestedFilename()).toBe('note 1.txt')
    await about.getByRole('button', { name: 'Enlarge green.png' }).click(PATIENCE)
    await large.getByRole('img', { name: 'green.png' }).waitFor(PATIENCE)
  }, 90_000)

  test('a page that was open for hours loads files by renewed addresses', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Loft' })
    const { files, sending } = parley.app.domain
    const body = Readable.from([Buffer.from('Hello')])
    const { id } = await files.upload(human, { name: 'notes.txt', body, bytes: null })
    await sending.send(human, { spaceId: space.id, text: 'See', fileIds: [id] })
    const { page } = await openAs(human, `/spaces/${space.id}`)
    const link = page.getByRole('link', { name: /^notes\.txt/ })
    await link.waitFor(PATIENCE)
    const before = await link.getAttribute('href')
    await page.evaluate('Date.now = ((now) => () => now() + 2 * 3_600_000)(Date.now)')
    const later = vi.spyOn(parley.app.platform.clock, 'now').mockImplementation(() => Date.now() + 60_000)
    const [download] = await Promise.all([page.waitForEvent('download'), link.click()])
    later.mockRestore()
    expect(new URL(download.url()).searchParams.get('expires')).not.toBe(
      new URL(before ?? '', page.url()).searchParams.get('expires'),
    )
    expect(await readFile((await download.path()) ?? '', 'utf8')).toBe('Hello')
  }, 90_000)
})
