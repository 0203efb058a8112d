import { basePath } from '../location.ts'

/** The path of a link from an email; null on other pages. */
export function mailLinkPath(): string | null {
  const path = location.pathname.startsWith(`${basePath}/`) ? location.pathname.slice(basePath.length) : ''
  return /^\/auth\/mail\/[^/]+$/.test(path) ? path : null
}
