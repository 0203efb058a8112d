import { useCallback, useEffect, useRef } from 'react'

/** Returns a function that stays the same and does what the newest one would do. */
export function useStable(act: () => void): () => void {
  const newest = useRef(act)
  useEffect(() => {
    newest.current = act
  })
  return useCallback(() => newest.current(), [])
}
