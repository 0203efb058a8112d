import { setTimeout as pause } from 'node:timers/promises'
import type { Browser, Page } from 'playwright-core'

/** The measurements that a page has recorded since `begin`; all in ms. */
export interface Noted {
  /** Tasks of more than 50 ms, as the browser reports them. */
  longTasks: number[]
  /** The start of each frame. */
  frames: number[]
  /** The time from each key press to the frame that shows its effect. */
  keys: number[]
}

/** A signed-in page of the console, observed by a script in the page and by the debugger. */
export interface ObservedPage {
  page: Page
  /** Loads an address. Returns the ms from the navigation until a message is visible and the input is ready. */
  open(address: string): Promise<number>
  begin(): Promise<void>
  noted(): Promise<Noted>
  /** Returns the size of the JavaScript heap after garbage collection, in MiB. */
  heapMebibytes(): Promise<number>
  /** Sets whether the browser may use its cache. */
  setCaching(isOn: boolean): Promise<void>
  close(): Promise<void>
}

/**
 * A script that runs before those of the page. The time of a key press ends with the first task after the frame that handled
 * its event.
 */
const PROBE = `
const probe = { readyAt: null, longTasks: [], frames: [], keys: [] }
globalThis.parleyProbe = probe
new PerformanceObserver((list) => probe.longTasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' })
const onFrame = (at) => {
  probe.frames.push(at)
  if (probe.readyAt === null && document.querySelector('article') && document.querySelector('textarea:enabled')) {
    afterFrame(() => { probe.readyAt = performance.now() })
  }
  requestAnimationFrame(onFrame)
}
const afterFrame = (then) => {
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = then
  port2.postMessage(null)
}
requestAnimationFrame(onFrame)
addEventListener('keydown', ({ timeStamp }) => {
  requestAnimationFrame(() => afterFrame(() => probe.keys.push(performance.now() - timeStamp)))
}, true)
`
const BEGIN = 'Object.assign(parleyProbe, { longTasks: [], frames: [], keys: [] })'
const READY_WITHIN_MS = 60_000

export async function observePage(browser: Browser, origin: string, token: string): Promise<ObservedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  await context.addInitScript(
    `if (location.origin === ${JSON.stringify(origin)}) { sessionStorage.setItem('parley.token', ${JSON.stringify(token)}); ${PROBE} }`,
  )
  const page = await context.newPage()
  const debug = await context.newCDPSession(page)
  return {
    page,
    async open(address) {
      await page.goto('about:blank')
      await page.goto(origin + address)
      const giveUp = AbortSignal.timeout(READY_WITHIN_MS)
      for (;;) {
        const readyAt = await page.evaluate<number | null>('parleyProbe.readyAt')
        if (readyAt !== null) return readyAt
        await pause(100, undefined, { signal: giveUp })
      }
    },
    begin: async () => void (await page.evaluate(BEGIN)),
    noted: () => page.evaluate<Noted>('({ ...parleyProbe })'),
    async heapMebibytes() {
      await debug.send('HeapProfiler.collectGarbage')
      const { usedSize } = await debug.send('Runtime.getHeapUsage')
      return usedSize / 2 ** 20
    },
    setCaching: async (isOn) => void (await debug.send('Network.setCacheDisabled', { cacheDisabled: !isOn })),
    close: () => context.close(),
  }
}
