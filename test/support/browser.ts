import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { skipFor } from './skip-for.ts'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/**
 * Returns whether a browser is available. If not, prints a clear warning that its tests are skipped. @throws on a CI machine,
 * which must have a browser
 */
export function hasBrowserFor(what: string): boolean {
  if (existsSync(CHROMIUM)) return true
  skipFor(`No Chromium at ${CHROMIUM} for ${what}`)
  return false
}

export function launchBrowser(executablePath = CHROMIUM): Promise<Browser> {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
}

let browserOfProcess: Promise<Browser> | undefined

/** Returns the browser that all test files of this process share. It ends with the process. Callers close their pages. */
export function openBrowser(): Promise<Browser> {
  browserOfProcess ??= launchBrowser()
  return browserOfProcess
}

/**
 * Starts a browser with its own priority, so that it yields the processor to the measured processes. Closing the browser also
 * ends pages that hang.
 */
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
