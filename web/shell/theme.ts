import { useEffect, useState } from 'react'

const KEY = 'parley.theme'

/** As the system has it, until one chooses: the choice is kept in this browser. */
export function useTheme() {
  const [chosen, setChosen] = useState(() => localStorage.getItem(KEY))
  const systemIsDark = matchMedia('(prefers-color-scheme: dark)').matches
  const isDark = chosen === null ? systemIsDark : chosen === 'dark'
  useEffect(() => {
    if (chosen === null) document.documentElement.removeAttribute('data-theme')
    else document.documentElement.dataset['theme'] = chosen
  }, [chosen])
  const toggle = () => {
    const next = isDark ? 'light' : 'dark'
    localStorage.setItem(KEY, next)
    setChosen(next)
  }
  return { isDark, toggle }
}
