import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSpace, type Deployment, deploy } from '../e2e/deployed.ts'
import { hasBrowserFor, openBrowser } from '../support/browser.ts'
import { openConsole, PATIENCE } from '../support/console-page.ts'
import { freePort } from '../support/free-port.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDataDirectory } from '../support/pglite.ts'

const hasBrowser = hasBrowserFor('the test of a restarted server')

describe.skipIf(!hasBrowser)('a console whose server is killed', () => {
  let parley: Deployment
  let again: ParleyProcess | undefined
  let browser: Browser
  let settings: Record<string, string>
  let removeData: () => Promise<unknown>

  beforeAll(async () => {
    const { path, remove } = await createTestDataDirectory()
    removeData = remove
    const PARLEY_SECRET_KEY = 'a-secret-key-for-tests-of-32-or-more'
    settings = { DATA_DIR: path, PORT: String(await freePort()), PARLEY_SECRET_KEY }
    parley = await deploy('embedded', 1, settings)
    browser = await openBrowser()
  }, 90_000)
  afterAll(async () => {
    await again?.kill()
    await parley?.close()
    await removeData?.()
  })

  test('during an answer shows the outage, resumes when the server returns, and repeats nothing', async () => {
    const ada = await parley.person('Ada')
    const spaceId = await createSpace(ada.at(0), [await parley.agent('Iris', 'openai.chat:test')])
    const never = new Promise<void>(() => {})
    let isBack = false
    parley.models.script((request) =>
      forAgent(
        'Iris',
        isBack
          ? steps([{ toolCall: 'send_message', input: { text: 'The whole of it.' } }], [{ text: 'ok' }])
          : steps([{ toolCall: 'send_message', chunks: ['{"text":"', 'The first half', never, '"}'] }]),
      )(request),
    )
    const { page, message, say, signIn } = await openConsole(browser, parley.worker, { path: `/spaces/${spaceId}` })
    await signIn(ada.token)
    await say('Tell me.')
    await message('The first half').waitFor(PATIENCE)

    await parley.worker.kill()
    await page.getByText('Connection lost').waitFor(PATIENCE)
    await page.getByRole('textbox', { name: 'Message' }).fill('Are you there?')
    await page.getByRole('button', { name: 'Send' }).click()
    const waiting = page.getByRole('status', { name: 'Not sent yet' }).getByText('Are you there?')
    await waiting.waitFor(PATIENCE)
    isBack = true
    again = await startParley({
      settings: { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: parley.models.baseUrl, ...settings },
    })

    await page.getByText('Connection lost').waitFor({ timeout: 60_000, state: 'detached' })
    // The server had saved the text within the last second before it was killed.
    const interrupted = page.locator('.message[data-status="INTERRUPTED"]')
    await interrupted.getByText('was interrupted').waitFor({ timeout: 60_000 })
    await message('The whole of it.').first().waitFor({ timeout: 60_000 })
    await message('Are you there?').waitFor(PATIENCE)
    await waiting.waitFor({ ...PATIENCE, state: 'detached' })
    for (const text of ['Tell me.', 'Are you there?']) expect(await message(text).count()).toBe(1)
    expect(await interrupted.count()).toBe(1)
    // Iris answers the last question, and after that nobody posts. A draft that was lost together with the process would then
    // stay forever.
    await expect.poll(() => page.getByText('is writing').count(), { timeout: PATIENCE.timeout }).toBe(0)
  }, 180_000)
})
