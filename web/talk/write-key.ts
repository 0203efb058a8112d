import { type RefObject, useEffect } from 'react'

const FIELDS = 'input, textarea, select, [contenteditable]'

/** Whether a key or the focus belongs to a field, or to an overlay above the page. */
export const isElsewhere = (element: EventTarget | null): boolean =>
  element instanceof Element && element.closest(`${FIELDS}, [role="dialog"], [role="menu"]`) !== null

/** Moves the focus to the message field for `/`. */
export function useWriteKey(composer: RefObject<{ focus(): void } | null>, { isEnabled = true } = {}): void {
  useEffect(() => {
    if (!isEnabled) return
    const onKey = (event: KeyboardEvent) => {
      const { key, target, defaultPrevented, ctrlKey, metaKey, altKey } = event
      if (key !== '/' || defaultPrevented || ctrlKey || metaKey || altKey) return
      if (composer.current === null || isElsewhere(target)) return
      event.preventDefault()
      composer.current.focus()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [composer, isEnabled])
}
