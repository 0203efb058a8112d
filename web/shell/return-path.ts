import { basePath } from '../location.ts'
import { keep, keptAt } from '../talk/kept.ts'

/** Stored for as long as the link in the email works. */
const LASTS_MS = 15 * 60_000
const KEY = `parley.return${basePath}`

/** Returns the path of this page below the server's base path, with its query and fragment. */
export const pathHere = () => location.pathname.slice(basePath.length) + location.search + location.hash

/** Stores the path of this page in this browser, for the tab in which the link from the email will be opened. */
export function keepReturnPath(): void {
  keep(KEY, JSON.stringify({ path: pathHere(), keptAtMs: Date.now() }))
}

/** Removes and returns the stored path; `/` if there is none. */
export function takeReturnPath(): string {
  const stored = keptAt(KEY)
  keep(KEY, null)
  return returnPathIn(stored, Date.now())
}

/** Returns the path in a stored value; `/` if the value is too old or not valid, or if the path leads to another server. */
export function returnPathIn(stored: string | null, nowMs: number): string {
  try {
    const { path, keptAtMs } = JSON.parse(stored ?? '{}')
    const isOwn = typeof path === 'string' && /^\/(?![/\\])[^\p{Cc}]*$/u.test(path)
    return isOwn && nowMs - keptAtMs <= LASTS_MS ? path : '/'
  } catch {
    return '/'
  }
}
