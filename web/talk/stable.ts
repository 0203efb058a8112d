import { useCallback, useEffect, useRef } from 'react'

/** Returns a function whose identity never changes, and which calls the latest given function. */
export function useStable(act: () => void): () => void {
  const newest = useRef(act)
  useEffect(() => {
    newest.current = act
  })
  return useCallback(() => newest.current(), [])
}
