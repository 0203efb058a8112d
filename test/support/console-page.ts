import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, Locator, Page } from 'playwright-core'
import type { TestServer } from './served.ts'

export const PATIENCE = { timeout: 20_000 }
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** A browser page with the console, which records the faults of the page. */
export interface ConsolePage {
  page: Page
  /** Requests to other hosts, and errors in the browser's console. */
  faults: string[]
  signIn(token: string): Promise<void>
  /** Returns the message of the conversation that contains a text. */
  message(text: string | RegExp): Locator
  /** Types a text in the open space, and sends it. */
  say(text: string): Promise<void>
  /** Returns the findings of axe for the current page, in light and in dark colours. */
  violations(): Promise<string[]>
}

/** Opens the console of a server at a path. */
export async function openConsole(
  browser: Browser,
  parley: Pick<TestServer, 'origin'>,
  { path = '/', width = 1200, height = 760 }: { path?: string; width?: number; height?: number } = {},
): Promise<ConsolePage> {
  const page = await browser.newPage({ viewport: { width, height } })
  const faults: string[] = []
  page.on('request', (request) => {
    if (!request.url().startsWith(parley.origin)) faults.push(request.url())
    if (/token=|Bearer/i.test(request.url())) faults.push(request.url())
  })
  page.on('pageerror', ({ message }) => faults.push(message))
  page.on('console', (said) => said.type() === 'error' && faults.push(said.text()))
  page.on('dialog', (dialog) => {
    faults.push(dialog.message())
    void dialog.dismiss()
  })
  await page.goto(parley.origin + path)
  return {
    page,
    faults,
    async signIn(token) {
      const folded = page.getByText('Sign in with a token')
      await folded.or(page.getByLabel('Token')).first().waitFor(PATIENCE)
      if ((await folded.count()) > 0) await folded.click()
      await page.getByLabel('Token').fill(token)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    },
    message: (text) => page.getByRole('article').filter({ hasText: text }),
    async say(text) {
      await page.getByRole('textbox', { name: 'Message' }).fill(text)
      await page.getByRole('button', { name: 'Send' }).click(PATIENCE)
    },
    async violations() {
      const found: string[] = []
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
        // Runs axe through the debugger, as accessibility tools do, because the page's content security policy rejects it as a
        // script.
        const result = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>(
          `${AXE}; axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'] })`,
        )
        found.push(...result.violations.map(({ id, nodes }) => `${colorScheme} ${id}: ${nodes[0]?.html}`))
      }
      return found
    },
  }
}

/** Returns a script for a page whose browser allows notifications, and subscribes at once with this push subscription. */
export const subscribingTo = (subscription: { endpoint: string; keys: object }) => `
  let current = null
  PushManager.prototype.getSubscription = async () => current
  PushManager.prototype.subscribe = async ({ applicationServerKey }) => (current = {
    endpoint: '${subscription.endpoint}',
    options: { applicationServerKey: applicationServerKey.buffer },
    toJSON: () => (${JSON.stringify(subscription)}),
    unsubscribe: async () => { current = null; return true },
  })
  Notification.requestPermission = async () => 'granted'
  Object.defineProperty(Notification, 'permission', { configurable: true, get: () => 'granted' })
  // The person returns from the settings of the browser.
  window.dispatchEvent(new Event('focus'))
`
