import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { build, preview } from 'vite'

const EXAMPLES = path.resolve(import.meta.dirname, '..')

/** The page of an example, built and served from `outDir`. */
export async function serveExample(name: string, outDir: string) {
  const options = {
    root: path.join(EXAMPLES, name),
    configFile: false as const,
    logLevel: 'error' as const,
    build: { outDir, emptyOutDir: true },
  }
  await build(options)
  const page = await preview({ ...options, preview: { port: 0, host: '127.0.0.1' } })
  return { page, origin: (page.resolvedUrls?.local[0] ?? '').replace(/\/$/, '') }
}

/** A new page that answers the prompts of an example. */
export async function openAnswering(
  browser: Browser,
  origin: string,
  given: { url: string; token: string; spaceId: string },
): Promise<Page> {
  const page = await browser.newPage()
  page.on('dialog', (dialog) => {
    const asked = dialog.message()
    void dialog.accept(asked.includes('token') ? given.token : asked.includes('space') ? given.spaceId : given.url)
  })
  await page.goto(origin)
  return page
}
