import { useSyncExternalStore } from 'react'

const listen = (onChange: () => void) => {
  window.addEventListener('hashchange', onChange)
  window.addEventListener('popstate', onChange)
  return () => {
    window.removeEventListener('hashchange', onChange)
    window.removeEventListener('popstate', onChange)
  }
}

/** Returns the message id after `#` in the address; null if there is none. */
export function useHashTarget(): string | null {
  const hash = useSyncExternalStore(listen, () => location.hash)
  return /^#(msg_[\w-]+)$/.exec(hash)?.[1] ?? null
}
