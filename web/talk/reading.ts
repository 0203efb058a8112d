import { useCallback, useEffect, useRef } from 'react'
import { type Message, payloadOf } from '../../client/index.ts'
import { useSession } from '../session.tsx'
import { MARK_READ } from './operations.ts'

const READ_PAUSE_MS = 400

/**
 * Marks messages as read after a short delay, together with all messages seen in the meantime. A reply moves the read marker of
 * its thread, and any other message that of the space, so create one instance for each.
 */
export function useReading(spaceId: string, onMarked?: (seq: number) => void): (message: Message) => void {
  const { connection, isHuman, actingUntil } = useSession()
  // Only people have a read marker.
  const isReading = isHuman && actingUntil === null
  const marked = useRef(0)
  const seen = useRef<Message | null>(null)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(
    (message) => {
      if (!isReading || message.seq <= marked.current) return
      const isWaiting = seen.current !== null
      seen.current = message
      if (!isWaiting) timer.current = setTimeout(() => void mark(), READ_PAUSE_MS)

      async function mark(): Promise<void> {
        const { id: messageId, seq } = seen.current ?? message
        const before = marked.current
        seen.current = null
        marked.current = seq
        try {
          const { markRead } = await connection.ask(MARK_READ, { spaceId, messageId })
          payloadOf(markRead, 'MarkReadPayload')
          onMarked?.(seq)
        } catch {
          // The next message that is seen triggers another attempt.
          marked.current = before
        }
      }
    },
    [connection, isReading, spaceId, onMarked],
  )
}
