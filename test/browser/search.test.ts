import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of search')

describe.skipIf(!hasBrowser)('search in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  test('Ctrl K finds words, the results page filters them, and a click opens the message in the transcript', async () => {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const { spaces } = parley.app.domain
    const garden = await spaces.create(parley.admin, { name: 'Garden', routing: 'BROADCAST', memberIds })
    const attic = await spaces.create(parley.admin, { name: 'Attic', routing: 'BROADCAST', memberIds })
    const sent = await parley.send(bob, garden.id, 'The tomatoes need a fleece tonight')
    for (let at = 1; at <= 70; at++) await parley.send(bob, garden.id, `Number ${at}.`)
    await parley.send(ada, attic.id, 'I sell tomatoes')
    const { page, message, violations } = await openAs(ada, `/spaces/${attic.id}`)
    await message('I sell tomatoes').waitFor(PATIENCE)

    await page.keyboard.press('Control+k')
    const found = page.getByRole('option').filter({ hasText: 'in Garden' })
    await page.getByRole('combobox', { name: /^Search spaces, people, agents/ }).fill('tomatoes fleece')
    await found.waitFor(PATIENCE)
    expect(await found.locator('mark').allTextContents()).toEqual(['tomatoes', 'fleece'])
    expect(await violations()).toEqual([])
    await page.getByRole('combobox', { name: /^Search spaces, people, agents/ }).fill('tomatoes')
    await page.getByRole('option', { name: 'Search messages and files for “tomatoes”' }).waitFor(PATIENCE)
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')

    const hits = page.getByRole('region', { name: 'Results' }).getByRole('link')
    await hits.nth(1).waitFor(PATIENCE)
    await page.getByLabel('Sender').selectOption('Bob')
    await hits.filter({ hasText: 'I sell' }).waitFor({ ...PATIENCE, state: 'detached' })
    await hits.first().waitFor(PATIENCE)
    expect(await hits.locator('mark').allTextContents()).toEqual(['tomatoes'])
    expect(page.url()).toContain(`from=${bob.id}`)
    expect(await violations()).toEqual([])
    await page.getByRole('combobox', { name: 'Space', exact: true }).selectOption('Garden')
    await page.getByLabel('With a file').check()
    await page.getByText('Nothing found').waitFor(PATIENCE)
    await page.getByLabel('With a file').uncheck()
    await hits.first().waitFor(PATIENCE)
    await hits.first().press('Enter')
    await message('The tomatoes need a fleece tonight').waitFor(PATIENCE)
    await page.waitForFunction((id) => {
      const box = document.querySelector(`#${id}.target`)?.getBoundingClientRect()
      return box !== undefined && box.top > 0 && box.bottom < innerHeight
    }, sent.message.id)
    await page.goBack()
    await hits.first().waitFor(PATIENCE)
    expect(await page.getByRole('searchbox', { name: 'Words to find' }).inputValue()).toBe('tomatoes')
  }, 120_000)
})
