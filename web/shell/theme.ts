import { useSyncExternalStore } from 'react'

const KEY = 'parley.theme'
const system = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  system.addEventListener('change', listener)
  return () => {
    listeners.delete(listener)
    system.removeEventListener('change', listener)
  }
}

const isDark = () => (localStorage.getItem(KEY) ?? (system.matches ? 'dark' : 'light')) === 'dark'

function apply(): void {
  const chosen = localStorage.getItem(KEY)
  if (chosen !== null) document.documentElement.dataset['theme'] = chosen
}
apply()

function toggle(): void {
  localStorage.setItem(KEY, isDark() ? 'light' : 'dark')
  apply()
  for (const listener of listeners) listener()
}

/** Returns the system's colour scheme until the user chooses one. The choice is stored in this browser. */
export function useTheme() {
  return { isDark: useSyncExternalStore(subscribe, isDark), toggle }
}
