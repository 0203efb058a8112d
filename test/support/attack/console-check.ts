import { launchNiceBrowser } from '../browser.ts'
import type { AttackWorld } from './world.ts'

/** The time limit for each step of the page, on a busy machine. */
const PATIENCE = { timeout: 40_000 }
/** The maximum time in which the main thread of the page must respond. */
const RESPONSIVE_WITHIN_MS = 10_000
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/**
 * Opens the shared space in the console as the honest member, and checks that it renders. If `marker` is given, posts that text
 * and waits until it appears. Returns the faults.
 */
export async function checkConsole({ origin, honest, spaces }: AttackWorld, marker: string | null): Promise<string[]> {
  // Each check has its own browser. A page that hangs would keep running during the next check and use a core.
  const { browser, end } = await launchNiceBrowser(marker === null ? 10 : 0)
  const page = await browser.newPage({ viewport: { width: 1200, height: 760 } })
  const faults: string[] = []
  page.on('pageerror', ({ message }) => faults.push(`the page threw: ${message.slice(0, 200)}`))
  page.on('crash', () => faults.push('the page crashed'))
  try {
    await page.goto(`${origin}/spaces/${spaces.hall}`, { ...PATIENCE, waitUntil: 'domcontentloaded' })
    await page.getByLabel('Token').fill(honest.token, PATIENCE)
    await page.getByRole('button', { name: 'Sign in' }).click(PATIENCE)
    await page.getByRole('heading', { name: 'Hall', exact: true }).waitFor(PATIENCE)
    await page.getByRole('article').first().waitFor(PATIENCE)
    const text = page.evaluate(() => document.body.innerText.length)
    const late = sleep(RESPONSIVE_WITHIN_MS).then(() => null)
    const length = await Promise.race([text, late])
    if (length === null) faults.push(`the page did not answer within ${RESPONSIVE_WITHIN_MS / 1000} s`)
    if (length === 0) faults.push('the page is blank')
    if (marker !== null) {
      await page.getByRole('textbox', { name: 'Message' }).fill(marker, PATIENCE)
      await page.getByRole('button', { name: 'Send' }).click(PATIENCE)
      await page.getByRole('article').filter({ hasText: marker }).waitFor(PATIENCE)
    }
  } catch (error) {
    faults.push(String(error).slice(0, 400))
  } finally {
    await end()
  }
  return faults
}
