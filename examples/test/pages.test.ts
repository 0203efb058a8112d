import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import type { PreviewServer } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor, openBrowser } from '../../test/support/browser.ts'
import { PATIENCE } from '../../test/support/console-page.ts'
import { forAgent, steps } from '../../test/support/model-server-script.ts'
import { createTestDataDirectory } from '../../test/support/pglite.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { openAnswering, serveExample } from './example-page.ts'

const hasBrowser = hasBrowserFor("the examples' test")
const NAMES = ['react', 'apollo', 'relay', 'urql'] as const

describe.skipIf(!hasBrowser)('the pages of the examples', () => {
  let parley: TestServer
  let browser: Browser
  const served = new Map<string, { page: PreviewServer; origin: string }>()
  let folder: Awaited<ReturnType<typeof createTestDataDirectory>>

  beforeAll(async () => {
    folder = await createTestDataDirectory()
    for (const name of NAMES) served.set(name, await serveExample(name, path.join(folder.path, name)))
    const PARLEY_ALLOWED_ORIGINS = [...served.values()].map(({ origin }) => origin).join(',')
    parley = await startTestServer({ stack: 'embedded', settings: { PARLEY_ALLOWED_ORIGINS } })
    browser = await openBrowser()
  }, 120_000)
  afterAll(async () => {
    await parley?.close()
    for (const { page } of served.values()) await page.close()
    await folder?.remove()
  })

  /** Opens an example and enters the server, token and space, in prompts or in a form. */
  async function openPage(name: string, given: { url: string; token: string; spaceId: string }): Promise<Page> {
    const page = await openAnswering(browser, served.get(name)?.origin ?? '', given)
    if (name !== 'react') return page
    await page.getByLabel('Server').fill(parley.origin, PATIENCE)
    await page.getByLabel('Token').fill(given.token)
    await page.getByRole('button', { name: 'Connect' }).click()
    return page
  }

  test.each(NAMES)(
    '%s sends a message in a browser, and shows the answer while it is written',
    async (name) => {
      const { human, agent, space } = await parley.room('Ada')
      const gate = Promise.withResolvers<void>()
      const chunks = ['{"text":"', 'Cover them', gate.promise, ' tonight.', '"}']
      parley.models.reset()
      parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }])))
      const given = { url: `${parley.origin}/graphql`, token: await parley.tokenOf(human), spaceId: space.id }
      const page = await openPage(name, given)
      const faults: string[] = []
      page.on('pageerror', ({ message }) => faults.push(message))
      const field = page.getByRole('textbox').last()
      await field.fill('What do I do?', PATIENCE)
      await field.press('Enter')
      await page.getByRole('listitem').filter({ hasText: 'What do I do?' }).waitFor(PATIENCE)
      const answer = page.getByRole('listitem').filter({ hasText: 'Cover them' })
      await answer.filter({ hasText: '…' }).waitFor(PATIENCE)
      gate.resolve()
      await answer.filter({ hasText: 'Cover them tonight.' }).waitFor(PATIENCE)
      await answer.filter({ hasText: '…' }).waitFor({ ...PATIENCE, state: 'detached' })
      expect(await answer.count()).toBe(1)
      expect(faults).toEqual([])
      await page.close()
    },
    90_000,
  )
})
