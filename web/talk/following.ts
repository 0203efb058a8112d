import { type RefObject, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { VirtualizerHandle } from 'virtua'
import type { Message } from '../../client/index.ts'

const NEAR_PX = 80
/** A scroll upwards counts as made by a person if it follows a wheel, touch or key event within this time. */
const GESTURE_MS = 500
/**
 * How much of a conversation stays loaded while its end is in view: as many messages as at the start, and enough screenfuls to
 * scroll.
 */
const KEPT = { messages: 50, screens: 3 }
/** Dropping fewer messages than this is not worth the work. */
const LEAST_LET_GO = 25

interface Followed {
  messages: readonly Message[]
  scroller: RefObject<HTMLDivElement | null>
  /** Whether something may cover the conversation. */
  isBehind: boolean
  /** Called with the newest message while the end is in view. */
  onSeen(last: Message): void
}

/** Whether the end of the conversation is in view, and a function to get there. */
export interface Following {
  /** Always current. Set this to false before scrolling elsewhere. */
  isAtEnd: RefObject<boolean>
  /** The value at the last render. */
  isFollowing: boolean
  toEnd(): void
  /** Updates the position after a scroll. Returns whether a person scrolled up. */
  look(box: HTMLElement): boolean
  /** Event handlers for the scrolling element that detect when a person scrolls. */
  gestures: Pick<React.DOMAttributes<HTMLElement>, 'onWheel' | 'onTouchMove' | 'onKeyDown' | 'onPointerDown'>
}

/** Keeps the end in view for a viewer who is at the end. Does not scroll for a viewer who reads elsewhere. */
export function useFollowing({ messages, scroller, isBehind, onSeen }: Followed): Following {
  const isAtEnd = useRef(true)
  const [isFollowing, setFollowing] = useState(true)
  const last = useRef({ top: 0, height: 0 })
  const { isGesture, gestures } = useGestures()
  const toEnd = useCallback(() => {
    const box = scroller.current
    if (box === null) return
    box.scrollTop = box.scrollHeight
    last.current = { top: box.scrollTop, height: box.scrollHeight }
  }, [scroller])

  function look(box: HTMLElement): boolean {
    const { top, height } = last.current
    const isUp = box.scrollTop < top - 2
    // The view also scrolls when messages are rendered, grow or are dropped, but only a scroll by a person leaves the end.
    const isMoved = box.scrollHeight !== height && !isGesture()
    if (isNearEnd(box)) isAtEnd.current = true
    else if (isUp && !isMoved) isAtEnd.current = false
    if (isAtEnd.current && isMoved && !hasOpenForm(box)) toEnd()
    else last.current = { top: box.scrollTop, height: box.scrollHeight }
    setFollowing(isAtEnd.current)
    return isUp && !isMoved
  }

  useStayingAtEnd(scroller, messages, isAtEnd, toEnd)
  useSeeing({ messages, scroller, isBehind, onSeen }, isAtEnd)
  return { isAtEnd, isFollowing, toEnd, look, gestures }
}

/** Whether the viewer fills in a form that may be taller than the window. */
const hasOpenForm = (box: HTMLElement) => box.querySelector('.editing:focus-within > .grant-form') !== null

const isNearEnd = (box: HTMLElement) => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX

/** Detects whether a person is scrolling. */
function useGestures() {
  const until = useRef(0)
  return useMemo(() => {
    const onGesture = () => {
      until.current = performance.now() + GESTURE_MS
    }
    return {
      isGesture: () => performance.now() < until.current,
      gestures: { onWheel: onGesture, onTouchMove: onGesture, onKeyDown: onGesture, onPointerDown: onGesture },
    }
  }, [])
}

function useStayingAtEnd(
  scroller: RefObject<HTMLElement | null>,
  messages: readonly Message[],
  isAtEnd: RefObject<boolean>,
  toEnd: () => void,
): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: each change of a message can move the end
  useLayoutEffect(() => {
    if (isAtEnd.current && scroller.current !== null && !hasOpenForm(scroller.current)) toEnd()
  }, [messages, scroller, isAtEnd, toEnd])
  useEffect(() => {
    const box = scroller.current
    if (box === null) return
    const observer = new ResizeObserver(() => isAtEnd.current && !hasOpenForm(box) && toEnd())
    for (const part of [box, ...box.children]) observer.observe(part)
    return () => observer.disconnect()
  }, [scroller, isAtEnd, toEnd])
}

/** Reports the newest message while the end is in view. */
function useSeeing({ messages, scroller, isBehind, onSeen }: Followed, isAtEnd: RefObject<boolean>): void {
  const seen = useRef(onSeen)
  seen.current = onSeen
  // biome-ignore lint/correctness/useExhaustiveDependencies: the viewer also sees messages when they are uncovered
  useLayoutEffect(() => {
    const look = () => {
      const last = messages.at(-1)
      const isShown = !document.hidden && scroller.current?.checkVisibility({ visibilityProperty: true }) === true
      if (isShown && last !== undefined && isAtEnd.current) seen.current(last)
    }
    look()
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [messages, scroller, isBehind, isAtEnd])
}

interface KeepingNewest {
  count: number
  following: Following
  list: RefObject<VirtualizerHandle | null>
  keepNewest(count: number): void
}

/** Drops old messages while the end is in view. A viewer who reads elsewhere keeps all messages. */
export function useKeepingNewest({ count, following, list, keepNewest }: KeepingNewest): void {
  const { isAtEnd, isFollowing } = following
  useEffect(() => {
    const drawn = list.current
    if (!isFollowing || !isAtEnd.current || drawn === null || count < KEPT.messages + LEAST_LET_GO) return
    const onScreens = count - drawn.findItemIndex(drawn.scrollSize - KEPT.screens * drawn.viewportSize)
    const kept = Math.max(KEPT.messages, onScreens)
    if (count >= kept + LEAST_LET_GO) keepNewest(kept)
  }, [count, isFollowing, list, isAtEnd, keepNewest])
}
