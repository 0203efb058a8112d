import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor, openBrowser } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDataDirectory } from '../support/pglite.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of the first hour')

describe.skipIf(!hasBrowser)('the first hour of an operator', () => {
  let browser: Browser
  let directory: Awaited<ReturnType<typeof createTestDataDirectory>>
  let parley: ParleyProcess

  beforeAll(async () => {
    browser = await openBrowser()
    directory = await createTestDataDirectory()
    parley = await start()
  }, 60_000)
  afterAll(async () => {
    await parley?.stop()
    await directory?.remove()
  })

  const start = () => startParley({ settings: { DATA_DIR: directory.path, PARLEY_LOG_LEVEL: 'debug' } })
  /** The lines that the server printed at startup, except log lines. */
  const printed = async () => {
    await until('the addresses are printed', async () => parley.output().includes('  model '))
    return parley
      .output()
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('{'))
  }

  test('startup prints the console first, a sign-in link that works after a click, once, and the file of the token', async () => {
    const lines = await printed()
    const [, port] = parley.origin.split(/:(?=\d)/)
    expect(lines[0]).toBe(`Parley console  http://localhost:${port}/`)
    expect(lines.join('\n')).toContain(`http://localhost:${port}/graphql`)
    expect(lines).toContain('  token     in PARLEY_ADMIN_TOKEN')
    expect(parley.output()).not.toContain(parley.adminToken)
    const link = lines.flatMap((line) => /(http\S+\/sign-in\/\S+)/.exec(line)?.[1] ?? [])[0] ?? ''

    expect((await fetch(link, { headers: { 'sec-purpose': 'prefetch' } })).status).toBe(200)
    const page = await browser.newPage()
    await page.goto(link)
    await page.getByRole('heading', { name: 'Welcome to Parley' }).waitFor(PATIENCE)
    expect(await page.getByRole('button').allTextContents()).toEqual(['Sign in'])
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('You are the operator').waitFor(PATIENCE)
    expect(page.url()).not.toContain('sign-in')
    await page.getByRole('button', { name: 'Try it' }).waitFor(PATIENCE)

    await page.getByRole('link', { name: 'GraphiQL' }).click()
    await page.getByRole('navigation', { name: 'Parley' }).getByRole('link', { name: 'Console' }).click(PATIENCE)
    await page.getByRole('button', { name: 'Try it' }).click(PATIENCE)
    await page.getByText('You are Ada').waitFor(PATIENCE)
    await page.close()

    const again = await browser.newPage()
    await again.goto(link)
    await again.getByRole('button', { name: 'Sign in' }).click(PATIENCE)
    await again.getByText('This link was already used or has expired.').waitFor(PATIENCE)
    expect(await again.getByRole('button').count()).toBe(0)
    await again.getByRole('link', { name: 'Sign in with the token' }).click()
    await again.getByLabel('Token').waitFor(PATIENCE)
    await again.close()
    expect(parley.output().split(link.slice(-43))).toHaveLength(2)
  }, 90_000)

  test('starting again, on a server with people, prints no link', async () => {
    await parley.stop()
    parley = await start()
    const text = (await printed()).join('\n')
    expect(text).toMatch(/^Parley console {2}http/)
    expect(text).toContain('  token     in PARLEY_ADMIN_TOKEN')
    expect(text).not.toContain('sign-in')
  }, 90_000)

  test('on an empty server, a person who follows the screen sees two agents talk, approves an order, and reads why an agent is silent, within 60 s', async () => {
    const empty = await startParley()
    const page = await browser.newPage({ viewport: { width: 1200, height: 760 } })
    try {
      await until('the addresses are printed', async () => empty.output().includes('  model '))
      const link = /(http\S+\/sign-in\/\S+)/.exec(empty.output())?.[1] ?? ''
      const beginning = performance.now()
      let steps = 0
      /** Performs a step of a person, by clicking only words that the screen shows. */
      const click = async (name: string | RegExp, within = page.locator('body')) => {
        steps += 1
        await within.getByRole('button', { name }).first().click(PATIENCE)
      }
      const said = (text: string | RegExp) => page.getByRole('article').filter({ hasText: text })
      await page.goto(link)
      await click('Sign in')
      await click('Try it')
      await click('Will there be frost tonight?')
      await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Message', null, PATIENCE)
      // Two agents talk: Iris reports, and Tom asks who orders the missing fleece.
      await said('Yes, frost from three').waitFor(PATIENCE)
      await said('Who orders the rest?').waitFor(PATIENCE)
      await click('Order two rolls of fleece')
      await click('Approve', page.getByRole('region', { name: /Tool call order_fleece/ }))
      await said('Ordered: two rolls of fleece, here before dusk.').waitFor(PATIENCE)
      // The line below the person's order shows who said nothing, and a click on it shows why.
      const line = said('Order two rolls of fleece')
        .first()
        .getByRole('button', { name: /read this and said nothing/ })
      steps += 1
      await line.click(PATIENCE)
      const silent = page.getByRole('listitem').filter({ hasText: 'read this and said nothing' }).first()
      const reason = silent.locator('.why')
      await reason.waitFor(PATIENCE)
      const seconds = (performance.now() - beginning) / 1000
      expect((await reason.textContent())?.length).toBeGreaterThan(10)
      expect(await reason.textContent()).not.toContain('no reason')
      expect(steps).toBe(6)
      expect(seconds).toBeLessThan(60)
    } finally {
      await page.close()
      await empty.stop()
    }
  }, 120_000)
})
