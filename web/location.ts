import { useLocationProperty } from 'wouter/use-browser-location'

/** The path prefix under which browsers reach this server; '' if there is none. The server writes it into the page. */
export const basePath = typeof document === 'undefined' ? '' : (document.documentElement.dataset['base'] ?? '')

/** Returns the complete URL of a path of this server. */
export const addressOf = (path: string): string => location.origin + basePath + path

/** Returns the message id after `#` in the address; null if there is none. */
export function useHashTarget(): string | null {
  const hash = useLocationProperty(() => location.hash)
  return /^#(msg_[\w-]+)$/.exec(hash)?.[1] ?? null
}
