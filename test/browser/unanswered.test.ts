import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of failing requests')

describe.skipIf(!hasBrowser)('the console without a response', () => {
  let parley: TestServer
  const { open } = playConsole((started) => {
    parley = started
  })

  /** Opens a page whose requests fail for a given time, while its subscriptions continue. */
  async function openFailing(viewer: Parameters<TestServer['tokenOf']>[0], path: string) {
    const shown = await open({ path }, { mayComplain: true })
    await shown.signIn(await parley.tokenOf(viewer))
    return { ...shown, fail: () => shown.page.route('**/graphql', (route) => route.abort()) }
  }
  const retry = (page: Page) =>
    page
      .getByRole('main')
      .getByRole('alert')
      .filter({ hasText: 'The server does not respond.' })
      .getByRole('button', { name: 'Try again' })

  test('a page reports the failure, and retries on request', async () => {
    const { agent, human, space } = await parley.room('Iris')
    parley.models.script(() => [{ text: 'ok' }])
    const { runs } = await parley.send(human, space.id, 'Hello?')
    const { page, fail } = await openFailing(parley.admin, '/start')
    await page.getByRole('heading', { name: 'Get started' }).waitFor(PATIENCE)
    for (const [address, shows] of [
      ['/runs', 'Iris'],
      [`/runs/${runs[0]?.id}`, 'Iris’s run'],
      ['/agents', 'Iris'],
      [`/agents/${agent.id}/memory`, 'Memories'],
      ['/people', 'Act as'],
      ['/usage', 'tokens in'],
      ['/audit', 'No audit entries'],
    ] as const) {
      await fail()
      await page.evaluate(`history.pushState(null, '', '${address}')`)
      await retry(page).first().waitFor(PATIENCE)
      expect([address, await page.getByText('not found').count()]).toEqual([address, 0])
      await page.unroute('**/graphql')
      await until('every query is sent again', async () => {
        if ((await retry(page).count()) === 0) return true
        // A request that repeats every few seconds may already have ended.
        const click = retry(page).first().click({ timeout: 1000 })
        return click.then(
          () => false,
          () => false,
        )
      })
      await page.getByRole('main').getByText(shows).first().waitFor(PATIENCE)
    }
  }, 180_000)

  test('messages that could not be sent wait, even across a reload, and are then sent automatically, once and in order', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    const { page, message, say, fail } = await openFailing(human, `/spaces/${space.id}`)
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    // The server receives the first message, but its response is lost.
    await page.route('**/graphql', async (route) => {
      await route.fetch()
      await fail()
      await route.abort()
    })
    await say('Are you there?')
    const waiting = page.getByRole('status', { name: 'Not sent yet' })
    await waiting.getByText('Are you there?').waitFor(PATIENCE)
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('')
    await say('Hello?')
    await waiting.getByText('Hello?').waitFor(PATIENCE)
    await page.getByRole('textbox', { name: 'Message' }).fill('A dra')
    await page.unroute('**/graphql')
    await page.reload()
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await message('Hello?').waitFor(PATIENCE)
    await waiting
      .getByRole('button')
      .first()
      .waitFor({ ...PATIENCE, state: 'detached' })
    expect(await page.getByRole('article').locator('.markdown').allTextContents()).toEqual(['Are you there?', 'Hello?'])
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('A dra')

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Token').waitFor(PATIENCE)
    expect(await page.evaluate('Object.keys(localStorage).filter((key) => key.startsWith("parley.kept"))')).toEqual([])
  }, 90_000)

  test('a machine without internet access still sends requests, because the server may run on that machine', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    const { page, message, say } = await open({ path: `/spaces/${space.id}` })
    await page.addInitScript(`Object.defineProperty(navigator, 'onLine', { get: () => false })`)
    await page.reload()
    await page.getByLabel('Token').fill(await parley.tokenOf(human))
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await page.evaluate(`window.dispatchEvent(new Event('offline'))`)
    await say('Are you there?')
    await message('Are you there?').waitFor(PATIENCE)
  }, 90_000)

  test('the list of spaces is shown as empty only after a successful response', async () => {
    const human = await parley.human('Ada')
    const { page } = await open()
    const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>()
    const { promise: mayAnswer, resolve: answer } = Promise.withResolvers<void>()
    await page.route('**/graphql', async (route) => {
      onAsked()
      await mayAnswer
      await route.continue()
    })
    await page.getByLabel('Token').fill(await parley.tokenOf(human))
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('You are Ada').waitFor(PATIENCE)
    await asked
    expect(await page.getByText('No spaces yet.').count()).toBe(0)
    answer()
    await page.getByText('No spaces yet.').waitFor(PATIENCE)
  }, 90_000)
})
