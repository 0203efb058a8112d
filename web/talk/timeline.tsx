import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { Virtualizer, type VirtualizerHandle } from 'virtua'
import { errorOf } from '../../client/errors.ts'
import type { Message, ParleyError, SpaceState } from '../../client/index.ts'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { dayOf } from '../ui/time.tsx'
import { MessageView } from './message-view.tsx'

interface TimelineProps {
  state: SpaceState
  loadEarlier(): Promise<void>
  loadUntil(seq: number): Promise<void>
  /** The message that the address names. */
  target: { id: string; seq: number } | null
  /** Called with the newest message while one looks at the end. */
  onSeen(message: Message): void
}

const NEAR_PX = 80
const SOON_PX = 600
/** Messages of one sender within this stand under one head. */
const TOGETHER_MS = 5 * 60_000

/** The messages of a space, as many as there are: only those in view are drawn. */
export function Timeline({ state, loadEarlier, loadUntil, target, onSeen }: TimelineProps) {
  const { messages, hasEarlier, firstUnread } = state
  const scroller = useRef<HTMLDivElement>(null)
  const list = useRef<VirtualizerHandle>(null)
  const isAtEnd = useRef(true)
  const lastTop = useRef(0)
  const [isFollowing, setFollowing] = useState(true)
  const [seenUpTo, setSeenUpTo] = useState(0)
  const [error, setError] = useState<ParleyError | null>(null)
  const firstId = messages[0]?.id
  const lastFirst = useRef(firstId)
  // Messages were put before the first: what one reads stays where it is.
  const isPrepended = lastFirst.current !== firstId && lastFirst.current !== undefined
  lastFirst.current = firstId

  const load = useCallback(() => {
    setError(null)
    loadEarlier().catch((failure) => setError(errorOf(failure)))
  }, [loadEarlier])

  const onScroll = () => {
    const box = scroller.current
    if (box === null) return
    // Only who scrolls up leaves the end: what is drawn anew, and grows, does not.
    const isUp = box.scrollTop < lastTop.current - 2
    lastTop.current = box.scrollTop
    if (isNearEnd(box)) isAtEnd.current = true
    else if (isUp) isAtEnd.current = false
    setFollowing(isAtEnd.current)
    if (box.scrollTop < SOON_PX && isUp && hasEarlier && !state.isLoadingEarlier && error === null) load()
  }

  const toEnd = useCallback(() => {
    const box = scroller.current
    if (box !== null) box.scrollTop = box.scrollHeight
  }, [])
  useFollowing({
    messages,
    scroller,
    isAtEnd,
    toEnd,
    onSeen: (last) => {
      setSeenUpTo(last.seq)
      onSeen(last)
    },
  })
  useTarget({ target, state, loadUntil, list, isAtEnd, onError: setError })

  const unseen = messages.length - 1 - messages.findLastIndex(({ seq }) => seq <= seenUpTo)
  const jumpToUnread = async () => {
    if (firstUnread === null) return
    await loadUntil(firstUnread.seq).catch((failure) => setError(errorOf(failure)))
    isAtEnd.current = false
    const at = messages.findIndex(({ seq }) => seq >= firstUnread.seq)
    if (at >= 0) list.current?.scrollToIndex(at, { align: 'start' })
  }

  return (
    <div className="timeline-frame">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard */}
      <section className="timeline" ref={scroller} onScroll={onScroll} tabIndex={0} aria-label="Conversation">
        <div className="timeline-fill" />
        {!hasEarlier && messages.length > 0 && <p className="beginning">This is where the conversation begins.</p>}
        {hasEarlier && (
          <p className="beginning" role="status">
            {state.isLoadingEarlier ? 'Loading earlier messages…' : ''}
          </p>
        )}
        <Refused error={error} onRetry={load} />
        <Virtualizer ref={list} scrollRef={scroller} shift={isPrepended} bufferSize={300} data={messages}>
          {(message, at) => (
            <div key={message.id} className="row">
              <MessageView
                message={message}
                isFirstOfDay={at === 0 || dayOf(messages[at - 1]?.createdAt ?? '') !== dayOf(message.createdAt)}
                isFirstUnread={firstUnread?.id === message.id}
                isContinued={continues(messages[at - 1], message) && firstUnread?.id !== message.id}
                isTarget={target?.id === message.id}
              />
            </div>
          )}
        </Virtualizer>
      </section>
      <div className="jumps">
        {firstUnread !== null && (messages[0]?.seq ?? 0) > firstUnread.seq && (
          <Button icon="list" onClick={() => void jumpToUnread()}>
            First unread
          </Button>
        )}
        {!isFollowing && (
          <Button
            icon="down"
            onClick={() => {
              isAtEnd.current = true
              toEnd()
            }}
          >
            {unseen > 0 ? `${unseen} new` : 'To the end'}
          </Button>
        )}
      </div>
    </div>
  )
}

const isNearEnd = (box: HTMLElement) => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX

function continues(before: Message | undefined, message: Message): boolean {
  if (before === undefined || before.sender.id !== message.sender.id) return false
  if (message.origin !== null || message.mentionedAgent !== null || before.run?.id !== message.run?.id) return false
  const apart = Date.parse(message.createdAt) - Date.parse(before.createdAt)
  return apart < TOGETHER_MS && dayOf(before.createdAt) === dayOf(message.createdAt)
}

interface Following {
  messages: readonly Message[]
  scroller: React.RefObject<HTMLElement | null>
  isAtEnd: React.RefObject<boolean>
  toEnd(): void
  onSeen(last: Message): void
}

/** Who looks at the end goes on looking at it; whoever reads elsewhere is not moved. */
function useFollowing({ messages, scroller, isAtEnd, toEnd, onSeen }: Following): void {
  const seen = useRef(onSeen)
  seen.current = onSeen
  useLayoutEffect(() => {
    const last = messages.at(-1)
    if (last === undefined || !isAtEnd.current) return
    toEnd()
    if (!document.hidden) seen.current(last)
  }, [messages, isAtEnd, toEnd])
  useEffect(() => {
    const box = scroller.current
    if (box === null) return
    const observer = new ResizeObserver(() => isAtEnd.current && toEnd())
    for (const part of [box, ...box.children]) observer.observe(part)
    return () => observer.disconnect()
  }, [scroller, isAtEnd, toEnd])
  useEffect(() => {
    const look = () => {
      const last = messages.at(-1)
      if (!document.hidden && last !== undefined && isAtEnd.current) seen.current(last)
    }
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [messages, isAtEnd])
}

interface Targeting {
  target: { id: string; seq: number } | null
  state: SpaceState
  loadUntil(seq: number): Promise<void>
  list: React.RefObject<VirtualizerHandle | null>
  isAtEnd: React.RefObject<boolean>
  onError(error: ParleyError): void
}

/** Goes to the message that the address names, once. */
function useTarget({ target, state, loadUntil, list, isAtEnd, onError }: Targeting): void {
  const gone = useRef<string | null>(null)
  const { messages, status } = state
  useEffect(() => {
    if (target === null || status !== 'live' || gone.current === target.id) return
    const at = messages.findIndex(({ id }) => id === target.id)
    if (at < 0) {
      if ((messages[0]?.seq ?? 0) > target.seq) loadUntil(target.seq).catch((failure) => onError(errorOf(failure)))
      return
    }
    gone.current = target.id
    isAtEnd.current = false
    list.current?.scrollToIndex(at, { align: 'center' })
  }, [target, messages, status, loadUntil, list, isAtEnd, onError])
}
