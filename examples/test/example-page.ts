import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { build, preview } from 'vite'

const EXAMPLES = path.resolve(import.meta.dirname, '..')

/** Builds the page of an example into `outDir`, and serves it. */
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

/** Opens the page of an example in a new tab, and answers its prompts with the `given` values. */
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
