import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/** What a test file is skipped by, with one loud line that names it; on a CI machine a browser must be there. */
export function hasBrowserFor(what: string): boolean {
  const hasBrowser = existsSync(CHROMIUM)
  if (!hasBrowser) console.warn(`\n!!! No Chromium at ${CHROMIUM}: ${what} is SKIPPED.\n`)
  return hasBrowser
}

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
}
