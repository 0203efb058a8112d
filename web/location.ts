import { useEffect } from 'react'
import { useLocationProperty } from 'wouter/use-browser-location'

/** The path prefix under which browsers reach this server; '' for none. The server writes it into the page. */
export const basePath = typeof document === 'undefined' ? '' : (document.documentElement.dataset['base'] ?? '')

/** Returns the complete URL of a path of this server. */
export const addressOf = (path: string): string => location.origin + basePath + path

/** Returns the part after `#` in the URL; '' if there is none. */
export function useHash(): string {
  return useLocationProperty(() => location.hash.slice(1))
}

/** Returns the message id after `#` in the URL; null if there is none. */
export function useHashTarget(): string | null {
  const hash = useHash()
  return /^msg_[\w-]+$/.test(hash) ? hash : null
}

/** Scrolls to the element with the id after `#`, once, as soon as the element exists: most content is loaded after the page. */
export function useScrollToHash(): void {
  const hash = useHash()
  useEffect(() => {
    if (hash === '') return
    const scroll = () => {
      const element = document.getElementById(hash)
      element?.scrollIntoView({ block: 'start' })
      return element !== null
    }
    if (scroll()) return
    const watch = new MutationObserver(() => scroll() && watch.disconnect())
    watch.observe(document.body, { childList: true, subtree: true })
    return () => watch.disconnect()
  }, [hash])
}
