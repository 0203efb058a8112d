import { useEffect, useRef } from 'react'
import { useAsk } from '../ask.ts'
import { useSession } from '../session.tsx'
import { UNREAD_THREADS } from './operations.ts'

/** The maximum that the API returns. */
const MOST_THREADS = 20
const LONGEST_EXCERPT = 120

interface UnreadThreadsProps {
  spaceId: string
  /** The open thread, which the viewer is reading. */
  openId: string | null
  onOpen(rootId: string): void
}

/** Links to the threads with new replies, whose first messages can be far up, or deleted. */
export function UnreadThreads({ spaceId, openId, onOpen }: UnreadThreadsProps) {
  const { viewer } = useSession()
  const list = useRef<HTMLDetailsElement>(null)
  const unreadCount = viewer.spaces.find(({ id }) => id === spaceId)?.unreadCount ?? 0
  const { data, refetch } = useAsk(UNREAD_THREADS, { spaceId }, { enabled: unreadCount > 0 })
  useEffect(() => {
    if (unreadCount > 0) void refetch()
  }, [unreadCount, refetch])
  const found = unreadCount > 0 ? (data?.space?.unreadThreads ?? []) : []
  const threads = found.filter(({ rootId }) => rootId !== openId)
  if (threads.length === 0) return null
  return (
    <details className="unread-threads" ref={list}>
      <summary>
        {found.length >= MOST_THREADS ? `${MOST_THREADS} or more` : threads.length}{' '}
        {threads.length === 1 ? 'thread' : 'threads'} with new replies
      </summary>
      <ul>
        {threads.map(({ rootId, root, unreadCount: replies }) => (
          <li key={rootId}>
            <button
              type="button"
              className="thread-line"
              onClick={() => {
                if (list.current !== null) list.current.open = false
                onOpen(rootId)
              }}
            >
              <span className="grow" dir="auto">
                {root === null || root.deletedAt !== null
                  ? 'A thread whose first message was deleted'
                  : `${root.sender.name}: ${root.text.slice(0, LONGEST_EXCERPT)}`}
              </span>
              <span className="unread">{replies} new</span>
            </button>
          </li>
        ))}
      </ul>
    </details>
  )
}
