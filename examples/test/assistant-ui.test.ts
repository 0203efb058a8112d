import path from 'node:path'
import type { Browser } from 'playwright-core'
import { build, type PreviewServer, preview } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor, openBrowser } from '../../test/support/browser.ts'
import { PATIENCE } from '../../test/support/console-page.ts'
import { forAgent, steps } from '../../test/support/model-server-script.ts'
import { createTestDataDirectory } from '../../test/support/pglite.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'

const hasBrowser = hasBrowserFor('the test of assistant-ui')

describe.skipIf(!hasBrowser)('the page by assistant-ui', () => {
  let parley: TestServer
  let browser: Browser
  let page: PreviewServer
  let origin: string
  let folder: Awaited<ReturnType<typeof createTestDataDirectory>>

  beforeAll(async () => {
    folder = await createTestDataDirectory()
    const options = {
      root: path.resolve(import.meta.dirname, '../assistant-ui'),
      configFile: false as const,
      logLevel: 'error' as const,
      build: { outDir: folder.path, emptyOutDir: true },
    }
    await build(options)
    page = await preview({ ...options, preview: { port: 0, host: '127.0.0.1' } })
    origin = (page.resolvedUrls?.local[0] ?? '').replace(/\/$/, '')
    parley = await startTestServer({ settings: { PARLEY_ALLOWED_ORIGINS: origin } })
    browser = await openBrowser()
  }, 120_000)
  afterAll(async () => {
    await parley?.close()
    await page?.close()
    await folder?.remove()
  })

  test('says something, shows the answer while it is written, and goes on', async () => {
    const { human, agent, space } = await parley.room('Ada')
    const gate = Promise.withResolvers<void>()
    const chunks = ['{"text":"', 'Cover them', gate.promise, ' tonight.', '"}']
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }])))
    const tab = await browser.newPage()
    const faults: string[] = []
    tab.on('pageerror', ({ message }) => faults.push(message))
    await tab.goto(origin)
    await tab.getByLabel('Agent').fill(`${parley.origin}/ag-ui/spaces/${space.id}`, PATIENCE)
    await tab.getByLabel('Token').fill(await parley.tokenOf(human))
    await tab.getByRole('button', { name: 'Connect' }).click()
    const field = tab.getByLabel('Message')
    const lines = tab.getByRole('listitem')
    await field.fill('What do I do?', PATIENCE)
    await field.press('Enter')
    await lines.filter({ hasText: 'What do I do?' }).waitFor(PATIENCE)
    await lines.filter({ hasText: 'Cover them…' }).waitFor(PATIENCE)
    gate.resolve()
    const answer = lines.filter({ hasText: 'Cover them tonight.' })
    await answer.filter({ hasNotText: '…' }).waitFor(PATIENCE)
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', input: { text: 'Sleep well.' } }])))
    await field.fill('Good night.')
    await field.press('Enter')
    await lines.filter({ hasText: 'Sleep well.' }).filter({ hasNotText: '…' }).waitFor(PATIENCE)
    expect(await lines.count()).toBe(4)
    expect(await answer.count()).toBe(1)
    expect((await parley.messages(space.id)).length).toBe(4)
    expect(faults).toEqual([])
    await tab.close()
  }, 90_000)
})
