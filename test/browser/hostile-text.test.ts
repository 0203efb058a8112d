import { mkdirSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of hostile text')
const PICTURES = process.env['PARLEY_TEST_PICTURES']
const LENGTH = 32_000
/** On a machine that several test files share; a page that hangs takes minutes. */
const MOST_MS = 6000

const filled = (piece: string) => piece.repeat(Math.ceil(LENGTH / piece.length)).slice(0, LENGTH)

const HOSTILE: Record<string, string> = {
  'quotes in quotes': filled('> '),
  'emphasis that never ends': filled('_a*'),
  'open brackets': filled('['),
  'images that never close': filled('![['),
  'lists in lists': filled('1. '),
  'a table of thousands of columns': `|${'a|'.repeat(7000)}\n|${'-|'.repeat(7000)}`,
  'a table of millions of cells': `|${'a|'.repeat(3000)}\n|${'-|'.repeat(3000)}\n${'|\n'.repeat(9000)}`,
  'thousands of headings': filled('# a\n'),
  'one long word': filled('a'),
  'markup of another kind': filled('<![CDATA[<!--'),
  'definitions alone': filled('[a]: b\n'),
  'marks above and below letters': filled('a\u0301\u0302\u0303\u0323\u0324'),
  'letters from right to left': filled('\u202e\u2067abc '),
}

describe.skipIf(!hasBrowser)('the console in front of hostile text', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  async function picture(page: Page, name: string): Promise<void> {
    if (PICTURES === undefined) return
    mkdirSync(PICTURES, { recursive: true })
    await page.screenshot({ path: `${PICTURES}/${name.replaceAll(' ', '-')}.png` })
  }

  test.each(Object.entries(HOSTILE))(
    '%s leave the honest messages around them to be read',
    async (name, text) => {
      const human = await parley.human('Ada')
      const space = await parley.space(human, [], { name: 'Garden' })
      await parley.send(human, space.id, 'an honest word before')
      await parley.send(human, space.id, text)
      await parley.send(human, space.id, 'an honest word after')
      const { page, message } = await openAs(human, `/spaces/${space.id}`)
      const begunAt = Date.now()
      await message('an honest word after').waitFor(PATIENCE)
      await message('an honest word before').waitFor(PATIENCE)
      expect(Date.now() - begunAt).toBeLessThan(MOST_MS)
      const writtenAt = Date.now()
      await page.getByRole('textbox', { name: 'Message' }).fill('I can still write.')
      expect(Date.now() - writtenAt).toBeLessThan(MOST_MS)
      const { nodes, overflow } = await page.evaluate(() => ({
        nodes: document.querySelectorAll('main *').length,
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      }))
      expect(nodes).toBeLessThan(10_000)
      expect(overflow).toBeLessThanOrEqual(0)
      await picture(page, name)
    },
    90_000,
  )

  test('a text beyond the limits says so, and unfolds', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    await parley.send(human, space.id, filled('> '))
    const { page } = await openAs(human, `/spaces/${space.id}`)
    await page.getByText('Shown as plain text: its formatting is nested too deeply.').waitFor(PATIENCE)
    const box = page.locator('.plain-text')
    expect(await box.textContent()).toHaveLength(LENGTH)
    await page.getByRole('button', { name: 'Show the whole text' }).click()
    await page.getByRole('button', { name: 'Show the whole text' }).waitFor({ ...PATIENCE, state: 'detached' })
    expect(await page.locator('.folded').count()).toBe(0)
  }, 90_000)

  test('a message that cannot be rendered is shown as plain text, alone, and can be tried again', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    for (const text of ['an honest word before', '[a link](/runs) that breaks', 'an honest word after'])
      await parley.send(human, space.id, text)
    const { page, message } = await openAs(human, `/spaces/${space.id}`, {}, { mayComplain: true })
    await message('an honest word after').waitFor(PATIENCE)
    // A fault of the browser, since none of the console's own is known.
    await page.addInitScript(() => {
      const { parse } = URL
      Object.assign(window, { isBroken: true })
      URL.parse = (...args) => {
        if ('isBroken' in window && window.isBroken === true) throw new Error('broken')
        return parse.call(URL, ...args)
      }
    })
    await page.reload()
    await message('an honest word after').waitFor(PATIENCE)
    await message('an honest word before').waitFor(PATIENCE)
    const broken = page.getByRole('region', { name: 'A text that could not be shown' })
    await broken.getByText('This text could not be shown.').waitFor(PATIENCE)
    await broken.getByText('[a link](/runs) that breaks').waitFor(PATIENCE)
    await picture(page, 'broken')
    await page.evaluate(() => Object.assign(window, { isBroken: false }))
    await broken.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('link', { name: 'a link' }).waitFor(PATIENCE)
    expect(await broken.count()).toBe(0)
  }, 90_000)

  test('links and images name the host that they lead to, in every spelling, and nothing is loaded from there', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    const addresses = [
      'HTTPS://evil.example',
      '//evil.example',
      '/\\evil.example',
      'https:\\\\evil.example',
      'https://parley.example@evil.example',
    ]
    const lines = [
      ...addresses.map((address) => `[Parley](<${address}>)`),
      ...addresses.map((address) => `![Parley](<${address}/p.png>)`),
      '[Parley][there]\n\n[there]: //evil.example',
      '[![Parley](https://evil.example/p.png)](https://evil.example)',
      '<https://evil.example>',
      'https://evil.example',
    ]
    await parley.send(human, space.id, lines.join('\n\n'))
    await parley.send(human, space.id, '[Our runs](/runs) are here')
    const { page } = await openAs(human, `/spaces/${space.id}`)
    await page.getByRole('link', { name: 'Our runs', exact: true }).waitFor(PATIENCE)
    const links = await page.locator('.markdown a[href*="evil"]').allInnerTexts()
    expect(links).toHaveLength(lines.length)
    expect(links.filter((words) => !words.includes('↗ evil.example'))).toEqual([])
    expect(await page.locator('main img, main a a').count()).toBe(0)
    await picture(page, 'links')
  }, 90_000)
})
