import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import { skipFor } from './skip-for.ts'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/** Whether there is a browser for these tests. Says loudly what is skipped without. @throws on a CI machine, where it must be. */
export function hasBrowserFor(what: string): boolean {
  if (existsSync(CHROMIUM)) return true
  skipFor(`No Chromium at ${CHROMIUM} for ${what}`)
  return false
}

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
}
