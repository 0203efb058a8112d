import { useEffect, useState } from 'react'

const PAUSE_MS = 200

/** Follows a value once it has not changed for a moment: not every key is a search. */
export function usePaused<Value>(value: Value): Value {
  const [paused, setPaused] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setPaused(value), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [value])
  return paused
}
