import { useEffect, useState } from 'react'

const PAUSE_MS = 200

/** Returns a value once it has not changed for a moment, so that not every key press starts a search. */
export function usePaused<Value>(value: Value): Value {
  const [paused, setPaused] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setPaused(value), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [value])
  return paused
}
