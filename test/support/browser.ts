import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { skipFor } from './skip-for.ts'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/** Whether there is a browser for these tests. Says loudly what is skipped without. @throws on a CI machine, where it must be. */
export function hasBrowserFor(what: string): boolean {
  if (existsSync(CHROMIUM)) return true
  skipFor(`No Chromium at ${CHROMIUM} for ${what}`)
  return false
}

export function launchBrowser(executablePath = CHROMIUM): Promise<Browser> {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
}

/** One of its own priority, so that it can yield the processor to what is measured beside it. Its end ends pages that hang, too. */
export async function launchNiceBrowser(niceness: number): Promise<{ browser: Browser; end(): Promise<void> }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'parley-browser-'))
  const program = path.join(folder, 'chromium')
  await writeFile(program, `#!/bin/sh\nexec nice -n ${niceness} '${CHROMIUM}' "$@"\n`, { mode: 0o755 })
  const browser = await launchBrowser(program)
  return {
    browser,
    async end() {
      await browser.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
