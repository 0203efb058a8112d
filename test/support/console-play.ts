import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { openBrowser } from './browser.ts'
import { type ConsolePage, openConsole } from './console-page.ts'
import { startTestServer, type TestServer } from './served.ts'

type Place = Parameters<typeof openConsole>[2]

/** Pages of the console, each of which is closed together with the test that opened it. */
export interface ConsolePlay {
  open(place?: Place, how?: { mayComplain: boolean }): Promise<ConsolePage>
  /** Signed in as a person. */
  openAs(
    viewer: Parameters<TestServer['tokenOf']>[0],
    path: string,
    place?: Omit<Place, 'path'>,
    how?: { mayComplain: boolean },
  ): Promise<ConsolePage>
}

/**
 * Starts a server and a browser for the tests of a `describe`, and ends them. After each test, fails if a page has logged
 * errors or sent requests to other hosts, unless the page was opened with `mayComplain` because the test expects a refusal.
 */
export function playConsole(take: (parley: TestServer) => void): ConsolePlay {
  let parley: TestServer
  let browser: Browser
  let opened: (ConsolePage & { mayComplain: boolean })[] = []

  beforeAll(async () => {
    parley = await startTestServer()
    take(parley)
    browser = await openBrowser()
  }, 60_000)
  afterAll(() => parley?.close())
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
