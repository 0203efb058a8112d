import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor, openBrowser } from '../../test/support/browser.ts'
import { PATIENCE } from '../../test/support/console-page.ts'
import { forAgent, steps } from '../../test/support/model-server-script.ts'
import { createTestDataDirectory } from '../../test/support/pglite.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { openAnswering, serveExample } from './example-page.ts'

describe.skipIf(!hasBrowserFor("assistant-ui's test"))('the chat by assistant-ui', () => {
  let parley: TestServer
  let browser: Browser
  let served: Awaited<ReturnType<typeof serveExample>>
  let folder: Awaited<ReturnType<typeof createTestDataDirectory>>
  beforeAll(async () => {
    folder = await createTestDataDirectory()
    served = await serveExample('assistant-ui', folder.path)
    parley = await startTestServer({ settings: { PARLEY_ALLOWED_ORIGINS: served.origin } })
    browser = await openBrowser()
  })
  afterAll(async () => {
    await parley?.close()
    await served?.page.close()
    await folder?.remove()
  })

  test('shows a text while it is written, sends the next message, and shows the same messages after a reload', async () => {
    const { human, agent, space } = await parley.room('Ada')
    const gate = Promise.withResolvers<void>()
    const chunks = ['{"text":"', 'Cover them', gate.promise, ' tonight.', '"}']
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }])))
    const given = { url: `${parley.origin}/graphql`, token: await parley.tokenOf(human), spaceId: space.id }
    const page = await openAnswering(browser, served.origin, given)
    const faults: string[] = []
    page.on('pageerror', ({ message }) => faults.push(message))
    const field = page.getByRole('textbox')
    const lines = page.getByRole('listitem')
    const send = async (text: string) => {
      await field.fill(text, PATIENCE)
      await field.press('Enter')
      await lines.filter({ hasText: text }).first().waitFor(PATIENCE)
    }
    await send('What do I do?')
    await lines.filter({ hasText: 'Cover them' }).waitFor(PATIENCE)
    // assistant-ui appends ● while a text is being written.
    expect(await lines.last().textContent()).toMatch(/^Cover them\s*●?$/)
    gate.resolve()
    await lines.filter({ hasText: 'Cover them tonight.' }).waitFor(PATIENCE)
    await page.getByRole('status').waitFor({ ...PATIENCE, state: 'detached' })
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', input: { text: 'Sleep well.' } }])))
    await send('Good night.')
    await lines.filter({ hasText: 'Sleep well.' }).waitFor(PATIENCE)
    await page.getByRole('status').waitFor({ ...PATIENCE, state: 'detached' })
    const all = ['What do I do?', 'Cover them tonight.', 'Good night.', 'Sleep well.']
    expect(await lines.allTextContents()).toEqual(all)
    await page.reload()
    await lines.filter({ hasText: 'Sleep well.' }).waitFor(PATIENCE)
    expect(await lines.allTextContents()).toEqual(all)
    expect(faults).toEqual([])
    await page.close()
    expect(await parley.messages(space.id)).toHaveLength(all.length)
  })
})
