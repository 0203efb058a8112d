import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of a space')

const ORDER = {
  name: 'order_fleece',
  description: 'Orders fleece.',
  inputSchema: {
    type: 'object',
    properties: { rolls: { type: 'integer' }, price: { type: 'number', title: 'Price in euros' } },
  },
  execution: 'INTERNAL' as const,
  approval: { quorum: 1 },
}
const PHONE = { width: 390, height: 844 }

describe.skipIf(!hasBrowser)('a space in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  async function garden() {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const { spaces } = parley.app.domain
    const space = await spaces.create(parley.admin, { name: 'Garden', routing: 'BROADCAST', memberIds })
    return { ada, bob, space }
  }

  test('a person can write at once, returns to the field with /, and sees a sent message after reading earlier ones', async () => {
    const { ada, bob, space } = await garden()
    for (let at = 1; at <= 40; at++) await parley.send(bob, space.id, `Number ${at}.`)
    const { page, message, say } = await openAs(ada, `/spaces/${space.id}`)
    await message('Number 40.').waitFor(PATIENCE)
    const isFocused = () => document.activeElement?.getAttribute('aria-label') === 'Message'
    await page.waitForFunction(isFocused, null, PATIENCE)
    await page.getByRole('region', { name: 'Conversation' }).focus()
    await page.keyboard.press('/')
    await page.waitForFunction(isFocused, null, PATIENCE)
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('')

    await page.getByRole('region', { name: 'Conversation' }).hover()
    await page.mouse.wheel(0, -900)
    await page.getByRole('button', { name: 'To the end' }).waitFor(PATIENCE)
    await say('I have read that.')
    const sent = message('I have read that.')
    await sent.waitFor(PATIENCE)
    const field = page.getByRole('textbox', { name: 'Message' })
    const isAboveField = async () => {
      const [shown, below] = [await sent.boundingBox(), await field.boundingBox()]
      return shown !== null && below !== null && shown.y > 0 && shown.y + shown.height <= below.y
    }
    await expect.poll(isAboveField, PATIENCE).toBe(true)
  }, 90_000)

  test('an empty space offers to add an agent, which opens the details at that field', async () => {
    const { ada, space } = await garden()
    await parley.agent('Iris')
    const { page, violations } = await openAs(ada, `/spaces/${space.id}`)
    await page.getByRole('button', { name: 'Add an agent' }).click(PATIENCE)
    const field = page.getByRole('dialog', { name: 'About Garden' }).getByLabel('Add an agent')
    await field.waitFor(PATIENCE)
    await page.waitForFunction(() => document.activeElement instanceof HTMLInputElement, null, PATIENCE)
    expect(await field.evaluate((element) => element === document.activeElement)).toBe(true)
    expect(await violations()).toEqual([])
  }, 60_000)

  test('one Escape closes the details of a space, and a question, whose Back button has the focus', async () => {
    const { ada, space } = await garden()
    const { page } = await openAs(ada, `/spaces/${space.id}`)
    await page.getByRole('button', { name: 'About this space' }).press('Enter', PATIENCE)
    const details = page.getByRole('dialog', { name: 'About Garden' })
    await page.waitForFunction(() => document.activeElement?.matches('[role=dialog]'), null, PATIENCE)
    await details.getByRole('button', { name: 'Remove Bob' }).press('Enter', PATIENCE)
    const question = page.getByRole('dialog', { name: 'Remove Bob?' })
    await page.waitForFunction(() => document.activeElement?.textContent === 'Back', null, PATIENCE)
    await page.keyboard.press('Escape')
    await question.waitFor({ ...PATIENCE, state: 'detached' })
    await details.waitFor(PATIENCE)
    await page.keyboard.press('Escape')
    await details.waitFor({ ...PATIENCE, state: 'detached' })
  }, 60_000)

  test('the buttons of a message do not cover its text', async () => {
    const { bob, space } = await garden()
    await parley.send(bob, space.id, `First. ${'long '.repeat(100)}`)
    await parley.send(bob, space.id, `Second. ${'long '.repeat(100)}`)
    const { page, message, violations } = await openAs(bob, `/spaces/${space.id}`)
    for (const text of ['First.', 'Second.']) {
      await message(text).hover(PATIENCE)
      const buttons = message(text).locator('.message-actions')
      await expect.poll(() => buttons.evaluate((box) => getComputedStyle(box).opacity), PATIENCE).toBe('1')
      const box = await buttons.boundingBox()
      const top = (await message(text).locator('.markdown').boundingBox())?.y ?? 0
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(top + 4)
      await message(text).getByRole('button', { name: 'Message actions' }).click(PATIENCE)
      await page.getByRole('menu', { name: 'Message actions' }).waitFor(PATIENCE)
      await page.keyboard.press('Escape')
    }
    expect(await violations()).toEqual([])
  }, 60_000)

  test('on a tablet, the list of runs shows what each run is about', async () => {
    const { human, agent, space } = await parley.room('Iris')
    parley.models.script(forAgent(agent.name, steps([{ text: 'ok' }])))
    const { runs } = await parley.send(human, space.id, 'Will there be frost tonight?')
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
    const { page } = await openAs(parley.admin, '/runs', { width: 820, height: 1100 })
    const title = page.locator('.run-row b').first()
    await title.waitFor(PATIENCE)
    expect((await title.boundingBox())?.width).toBeGreaterThan(80)
    expect(await page.evaluate('document.querySelector("main").scrollWidth <= innerWidth')).toBe(true)
  }, 60_000)

  test('the sidebar names the call that waits, whose card shows an amount with two decimals', async () => {
    const { human, agent, space } = await parley.room('Noor', { tools: [ORDER] })
    const order = { toolCall: 'order_fleece', input: { rolls: 2, price: 23.8 } }
    parley.models.script(forAgent(agent.name, steps([order], [{ text: 'ok' }])))
    const { page } = await openAs(human, `/spaces/${space.id}`)
    await parley.send(human, space.id, 'Order two rolls')
    await page.getByRole('link', { name: /Noor asks for approval: Order fleece/ }).waitFor(PATIENCE)
    await page.getByText('23.80', { exact: true }).waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Allow calls like this…' }).press('Enter', PATIENCE)
    const form = page.getByRole('region', { name: 'Allow calls of order_fleece' })
    await form.getByText('Price in euros: at most 23.80').waitFor(PATIENCE)
    const title = form.getByText('Allow later calls like this')
    await expect.poll(async () => ((await title.boundingBox())?.y ?? 0) > 60, PATIENCE).toBe(true)
    expect((await title.boundingBox())?.y).toBeLessThan(400)
    await page.keyboard.press('Escape')
    await form.waitFor({ ...PATIENCE, state: 'detached' })
    await page.getByRole('link', { name: /Waiting for you/ }).click()
    await page.getByText('Husam asked: “Order two rolls”').waitFor(PATIENCE)
  }, 90_000)

  test('the list of files leads to the message of a file, and a copy up to a message says so', async () => {
    const { ada, bob, space } = await garden()
    const { files, sending } = parley.app.domain
    const body = Readable.from([Buffer.from('Hello')])
    const { id } = await files.upload(bob, { name: 'plan.txt', body, bytes: null })
    await sending.send(bob, { spaceId: space.id, text: 'The plan', fileIds: [id] })
    for (let at = 1; at <= 70; at++) await parley.send(bob, space.id, `Number ${at}.`)
    const { page, message, violations } = await openAs(ada, `/spaces/${space.id}`)
    await message('Number 70.').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'About this space' }).click()
    await page.getByText('Files of this space').click(PATIENCE)
    await page.getByRole('button', { name: 'Show the message with plan.txt' }).click(PATIENCE)
    await message('The plan').waitFor(PATIENCE)
    await message('The plan').getByRole('button', { name: 'Message actions' }).press('Enter')
    await page.getByRole('menuitem', { name: 'Copy the space up to here…' }).press('Enter', PATIENCE)
    const form = page.getByRole('form', { name: 'Copy this space' })
    await form.getByText(/^The copy ends with “The plan” \(.+\)\.$/).waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await form.getByRole('button', { name: 'Copy this space' }).click()
    await page.getByRole('heading', { name: 'Garden (copy)', level: 1 }).waitFor(PATIENCE)
    await page.getByText(/^Copy of Garden up to “The plan”, made on/).waitFor(PATIENCE)
    await message('The plan').waitFor(PATIENCE)
    expect(await message('Number 1.').count()).toBe(0)
  }, 120_000)

  test('on a phone, the header is one row, the field is wide, and the filters of the search are closed', async () => {
    const { ada, bob, space } = await garden()
    await parley.send(bob, space.id, 'Hello Ada')
    const { page, message } = await openAs(ada, `/spaces/${space.id}`, PHONE)
    await message('Hello Ada').waitFor(PATIENCE)
    const heightOf = (selector: string) =>
      page.evaluate((found) => document.querySelector(found)?.getBoundingClientRect().height ?? 0, selector)
    expect(await heightOf('.page-head')).toBeLessThan(64)
    expect((await page.getByRole('textbox', { name: 'Message' }).boundingBox())?.width).toBeGreaterThan(200)
    await page.getByRole('link', { name: 'Search in this space' }).click()
    await page.getByText('Filters (1)').waitFor(PATIENCE)
    expect(await page.getByLabel('Sender').isVisible()).toBe(false)
    await page.getByText('Filters (1)').click()
    await page.getByLabel('Sender').waitFor(PATIENCE)
  }, 60_000)
})
