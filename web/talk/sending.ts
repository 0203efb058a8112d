import { useCallback, useState } from 'react'
import type { LiveSpace } from '../../client/index.ts'

/** Returns a function that sends, with a stable identity, and the number of messages that it has sent. */
export function useSending(send: LiveSpace['send']): [send: LiveSpace['send'], sentCount: number] {
  const [sentCount, setSentCount] = useState(0)
  const counted = useCallback<LiveSpace['send']>(
    async (message) => {
      const sent = await send(message)
      setSentCount((count) => count + 1)
      return sent
    },
    [send],
  )
  return [counted, sentCount]
}
