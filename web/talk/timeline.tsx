import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { Virtualizer, type VirtualizerHandle } from 'virtua'
import { errorOf } from '../../client/errors.ts'
import type { Message, ParleyError, SpaceState } from '../../client/index.ts'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { dayOf } from '../ui/time.tsx'
import { useFollowing, useKeepingNewest } from './following.ts'
import { useMessageVerbs } from './message-verbs.tsx'
import { MessageView, plainMessage } from './message-view.tsx'
import { repeatedFailures } from './repeated-failures.ts'

interface TimelineProps {
  /** The accessible name. */
  label?: string
  /** Shown above the first message. */
  beginning?: string | null
  state: Shown
  loadEarlier(): Promise<void>
  loadUntil(seq: number): Promise<void>
  keepNewest(count: number): void
  /** The message after `#` in the URL. */
  target: { id: string; seq: number } | null
  /** Called with the newest complete message while the end is in view. */
  onSeen(message: Message): void
  /** The number of messages that the viewer has sent here. The end comes into view with each one. */
  sentCount?: number
  /** Whether another element may cover the timeline, so that it is not visible. */
  isBehind?: boolean
}

type Shown = Pick<SpaceState, 'status' | 'messages' | 'hasEarlier' | 'isLoadingEarlier' | 'firstUnread'> &
  Partial<Pick<SpaceState, 'threads'>>

const SOON_PX = 600
/** Messages of one sender within this time share a header. */
const TOGETHER_MS = 5 * 60_000

/** The messages of a space. Only those in view are rendered. */
export function Timeline({ label = 'Conversation', state, target, onSeen, isBehind = false, ...pages }: TimelineProps) {
  const { beginning = 'The conversation begins here.', loadEarlier, loadUntil, keepNewest, sentCount = 0 } = pages
  const { messages, hasEarlier, firstUnread, threads } = state
  const scroller = useRef<HTMLDivElement>(null)
  const list = useRef<VirtualizerHandle>(null)
  const [seenUpTo, setSeenUpTo] = useState(0)
  const [error, setError] = useState<ParleyError | null>(null)
  const [first] = messages
  const lastFirst = useRef(first?.id)
  // Messages were added or dropped at the start, so the scroll position must be kept.
  const isShifted = lastFirst.current !== first?.id && lastFirst.current !== undefined
  lastFirst.current = first?.id
  const repeated = useMemo(() => repeatedFailures(messages), [messages])
  const [unread, setUnread] = useState<SpaceState['firstUnread']>(null)
  const wasUnreadThere = useRef(false)
  if (firstUnread !== null && first !== undefined && first.seq <= firstUnread.seq) wasUnreadThere.current = true

  const load = useLoading(loadEarlier, setError)
  const following = useFollowing({
    messages,
    scroller,
    isBehind,
    onSeen: (last) => {
      setSeenUpTo(last.seq)
      // A streaming message is marked as read when it is complete, and the messages before it at once.
      const whole = messages.findLast(({ status }) => status !== 'STREAMING')
      if (whole !== undefined) onSeen(whole)
    },
  })
  const { isAtEnd, isFollowing, toEnd, gestures } = following
  useEffect(() => {
    if (sentCount === 0) return
    isAtEnd.current = true
    toEnd()
  }, [sentCount, isAtEnd, toEnd])
  const onScroll = () => {
    const box = scroller.current
    if (box === null) return
    const isUp = following.look(box)
    if (box.scrollTop < SOON_PX && isUp && hasEarlier && !state.isLoadingEarlier && error === null) load()
  }
  const going = { state, loadUntil, list, isAtEnd, onError: setError }
  useTarget({ ...going, target, align: 'center' })
  useTarget({ ...going, target: unread, align: 'start' })
  useFilling({ scroller, load, mayLoad: hasEarlier && !state.isLoadingEarlier && error === null })
  useKeepingNewest({ count: messages.length, following, list, keepNewest })

  const editingId = useMessageVerbs()?.editingId ?? null
  const edited = editingId === null ? -1 : messages.findIndex(({ id }) => id === editingId)

  const unseen = messages.length - 1 - messages.findLastIndex(({ seq }) => seq <= seenUpTo)

  return (
    <div className="timeline-frame">
      <section
        className="timeline"
        ref={scroller}
        onScroll={onScroll}
        {...gestures}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need the focus to scroll this region
        tabIndex={0}
        aria-label={label}
      >
        <div className="timeline-fill" />
        {!hasEarlier && beginning !== null && messages.length > 0 && <p className="beginning">{beginning}</p>}
        {hasEarlier && (
          <p className="beginning" role="status">
            {state.isLoadingEarlier ? 'Loading earlier messages…' : ''}
          </p>
        )}
        <Refused error={error} onRetry={load} />
        <Virtualizer
          ref={list}
          scrollRef={scroller}
          shift={isShifted}
          bufferSize={300}
          data={messages}
          // The message with an open edit form stays mounted when it is scrolled out of view, so that the text is not lost.
          {...(edited < 0 ? {} : { keepMounted: [edited] })}
        >
          {(message, at) => (
            <div key={message.id} className="row">
              <Boundary what="message" version={message} text={() => plainMessage(message)}>
                <MessageView
                  message={message}
                  isFirstOfDay={at === 0 || dayOf(messages[at - 1]?.createdAt ?? '') !== dayOf(message.createdAt)}
                  isFirstUnread={firstUnread?.id === message.id}
                  isContinued={continues(messages[at - 1], message) && firstUnread?.id !== message.id}
                  isTarget={target?.id === message.id}
                  repeated={repeated.get(message.id) ?? ''}
                  thread={threads?.get(message.id)}
                />
              </Boundary>
            </div>
          )}
        </Virtualizer>
      </section>
      <div className="jumps">
        {firstUnread !== null && !wasUnreadThere.current && (
          <Button icon="list" onClick={() => setUnread({ ...firstUnread })}>
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

/** Defined outside of the component, whose closure would keep old messages in memory. */
function useLoading(loadEarlier: () => Promise<void>, setError: (error: ParleyError | null) => void): () => void {
  return useCallback(() => {
    setError(null)
    loadEarlier().catch((failure) => setError(errorOf(failure)))
  }, [loadEarlier, setError])
}

interface Filling {
  scroller: React.RefObject<HTMLElement | null>
  mayLoad: boolean
  load(): void
}

/**
 * In a tall window into which everything fits, nobody can scroll up. So earlier messages are loaded until the window can
 * scroll.
 */
function useFilling({ scroller, mayLoad, load }: Filling): void {
  useEffect(() => {
    const box = scroller.current
    if (box === null || !mayLoad) return
    const observer = new ResizeObserver(() => {
      if (box.scrollHeight < box.clientHeight + SOON_PX) load()
    })
    for (const part of [box, ...box.children]) observer.observe(part)
    return () => observer.disconnect()
  }, [scroller, mayLoad, load])
}

function continues(before: Message | undefined, message: Message): boolean {
  if (before === undefined || before.sender.id !== message.sender.id) return false
  if (before.actingAdmin?.id !== message.actingAdmin?.id) return false
  if (message.origin !== null || message.mentions.length > 0 || before.run?.id !== message.run?.id) return false
  const apart = Date.parse(message.createdAt) - Date.parse(before.createdAt)
  return apart < TOGETHER_MS && dayOf(before.createdAt) === dayOf(message.createdAt)
}

interface Targeting {
  target: { id: string; seq: number } | null
  /** Where in the window the message should appear. */
  align: 'start' | 'center'
  state: Shown
  loadUntil(seq: number): Promise<void>
  list: React.RefObject<VirtualizerHandle | null>
  isAtEnd: React.RefObject<boolean>
  onError(error: ParleyError): void
}

/** Scrolls to a message, once. */
function useTarget({ target, align, state, loadUntil, list, isAtEnd, onError }: Targeting): void {
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
    list.current?.scrollToIndex(at, { align })
  }, [target, align, messages, status, loadUntil, list, isAtEnd, onError])
}
