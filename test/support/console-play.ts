import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { launchBrowser } from './browser.ts'
import { type ConsolePage, openConsole } from './console-page.ts'
import { startTestServer, type TestServer } from './served.ts'

type Place = Parameters<typeof openConsole>[2]

/** Pages of the console, each closed with the test that opened it. */
export interface ConsolePlay {
  open(place?: Place, how?: { mayComplain: boolean }): Promise<ConsolePage>
  /** Signed in as somebody. */
  openAs(
    viewer: Parameters<TestServer['tokenOf']>[0],
    path: string,
    place?: Omit<Place, 'path'>,
    how?: { mayComplain: boolean },
  ): Promise<ConsolePage>
}

/**
 * Starts, for the tests of a `describe`, a server and a browser, and ends them. After each of them no page may have complained, or asked
 * other hosts for anything, but those that are refused something on purpose: they `mayComplain`.
 */
export function playConsole(take: (parley: TestServer) => void): ConsolePlay {
  let parley: TestServer
  let browser: Browser
  let opened: (ConsolePage & { mayComplain: boolean })[] = []

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded' })
    take(parley)
    browser = await launchBrowser()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await parley?.close()
  })
  beforeEach(() => parley.models.reset())
  afterEach(async () => {
    const pages = opened
    opened = []
    for (const { page } of pages) await page.close()
    expect(pages.flatMap(({ faults, mayComplain }) => (mayComplain ? [] : faults))).toEqual([])
  })

  const open: ConsolePlay['open'] = async (place = {}, { mayComplain } = { mayComplain: false }) => {
    const shown = await openConsole(browser, parley, place)
    opened.push({ ...shown, mayComplain })
    return shown
  }
  return {
    open,
    async openAs(viewer, path, place = {}, how = { mayComplain: false }) {
      const shown = await open({ path, ...place }, how)
      await shown.signIn(await parley.tokenOf(viewer))
      return shown
    },
  }
}
