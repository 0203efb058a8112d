import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of changing messages')

describe.skipIf(!hasBrowser)('editing, reacting, quoting and deleting in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  async function twoPeople() {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const space = await parley.app.domain.spaces.create(parley.admin, {
      name: 'Garden',
      routing: 'BROADCAST',
      memberIds,
    })
    return { ada, bob, space }
  }

  test('by keyboard: ↑ edits the user’s last message, and the menu quotes, reacts and deletes; others see the change at once', async () => {
    const { ada, bob, space } = await twoPeople()
    await parley.send(bob, space.id, 'Frost tonight?')
    await parley.send(ada, space.id, 'Yes, bad frost.')
    await parley.send(bob, space.id, 'Thanks @Ada')
    const { page, message, violations } = await openAs(ada, `/spaces/${space.id}`)
    const other = await openAs(bob, `/spaces/${space.id}`)
    await other.message('Yes, bad frost.').waitFor(PATIENCE)
    const composer = page.getByRole('textbox', { name: 'Message', exact: true })

    await composer.press('ArrowUp', PATIENCE)
    const field = page.getByRole('textbox', { name: 'Text of the message' })
    await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Text of the message')
    expect(await field.inputValue()).toBe('Yes, bad frost.')
    await page.keyboard.type(' Cover the beds.')
    expect(await violations()).toEqual([])
    await page.keyboard.press('Enter')
    const edited = other.message('Yes, bad frost. Cover the beds.')
    await edited.getByRole('button', { name: 'edited' }).click(PATIENCE)
    await other.page.getByRole('dialog', { name: 'Older versions' }).getByText('Yes, bad frost.').waitFor(PATIENCE)
    await other.page.keyboard.press('Escape')
    await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Message')

    const actions = message('Thanks @Ada').first().getByRole('button', { name: 'Message actions' })
    await actions.focus()
    await page.keyboard.press('Enter')
    const menu = page.getByRole('menu', { name: 'Message actions' })
    await menu.waitFor(PATIENCE)
    expect(await menu.getByRole('menuitem').allTextContents()).toEqual(
      ['React…', 'Reply in thread', 'Quote', 'Copy text', 'Copy link', 'Why?', 'Copy the space up to here…'].map(
        (words) => ` ${words}`,
      ),
    )
    expect(await violations()).toEqual([])
    await page.keyboard.press('Escape')
    await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Message actions')
    await page.keyboard.press('Enter')
    await menu.getByRole('menuitem', { name: 'Quote' }).press('Enter')
    await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Message')
    expect(await composer.inputValue()).toBe('> Thanks @Ada\n\n')
    await page.keyboard.type('You are welcome.')
    await page.keyboard.press('Enter')
    // Names in a quotation are not mentions.
    await other.message('You are welcome.').getByRole('blockquote').waitFor(PATIENCE)
    expect(await other.message('You are welcome.').getByText('to @Ada').count()).toBe(0)

    await actions.press('Enter')
    await menu.getByRole('menuitem', { name: 'React…' }).press('Enter')
    const chooser = page.getByRole('dialog', { name: 'React' })
    await chooser.getByRole('textbox', { name: 'Another emoji' }).fill('no')
    await chooser.getByRole('textbox', { name: 'Another emoji' }).press('Enter')
    await chooser.getByText('A reaction must be exactly one emoji.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await chooser.getByRole('textbox', { name: 'Another emoji' }).fill('🌱')
    await chooser.getByRole('textbox', { name: 'Another emoji' }).press('Enter')
    const chip = other.page.getByRole('button', { name: '🌱 1' })
    await chip.waitFor(PATIENCE)
    await chip.hover()
    await other.page.locator('.tooltip').getByText('Ada').waitFor(PATIENCE)
    await chip.click()
    await page.getByRole('button', { name: '🌱 2' }).waitFor(PATIENCE)
    expect(await other.page.getByRole('button', { name: '🌱 2' }).getAttribute('aria-pressed')).toBe('true')

    await message('You are welcome.').getByRole('button', { name: 'Message actions' }).press('Enter')
    await menu.getByRole('menuitem', { name: 'Delete…' }).press('Enter')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete the message' }).press('Enter')
    await other.page.getByText('This message was deleted.').waitFor(PATIENCE)
    expect(await other.message('You are welcome.').count()).toBe(0)
    expect(await violations()).toEqual([])
  }, 120_000)

  test('on a phone: the menu can be reached with one finger, and a copied link opens its message in the transcript', async () => {
    const { ada, bob, space } = await twoPeople()
    const sent = await parley.send(bob, space.id, 'The first message')
    for (let at = 1; at <= 70; at++) await parley.send(bob, space.id, `Number ${at}.`)
    const { page, message, violations } = await openAs(ada, `/spaces/${space.id}`, { width: 360, height: 740 })
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await message('Number 70.').getByRole('button', { name: 'Message actions' }).click(PATIENCE)
    await page.getByRole('menuitem', { name: 'Copy text' }).click(PATIENCE)
    await page.getByRole('status').getByText('Text copied.').waitFor(PATIENCE)
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe('Number 70.')
    await message('Number 70.').getByRole('button', { name: 'Message actions' }).click(PATIENCE)
    await page.getByRole('menuitem', { name: 'Copy link' }).click(PATIENCE)
    await page.getByRole('status').getByText('Link copied.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    const link = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(link).toMatch(new RegExp(`^${parley.origin}/spaces/${space.id}#msg_`))
    const { id } = sent.message
    await page.evaluate(`location.hash = '${id}'`)
    await message('The first message').waitFor(PATIENCE)
    await page.waitForFunction((id) => {
      const box = document.getElementById(id)?.getBoundingClientRect()
      return box !== undefined && box.top > 0 && box.bottom < innerHeight
    }, id)
  }, 90_000)
})
