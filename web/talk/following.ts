import { type RefObject, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { VirtualizerHandle } from 'virtua'
import type { Message } from '../../client/index.ts'

const NEAR_PX = 80
/** For so long after a wheel, a finger or a key, a move upwards is the person's. */
const GESTURE_MS = 500
/** What stays of a conversation while one looks at its end: as many messages as when it was opened, and screens enough to scroll. */
const KEPT = { messages: 50, screens: 3 }
/** Fewer than this are not let go for themselves. */
const LEAST_LET_GO = 25

interface Followed {
  messages: readonly Message[]
  scroller: RefObject<HTMLDivElement | null>
  /** Called with the newest message while one looks at the end. */
  onSeen(last: Message): void
}

/** Whether one looks at the end of a conversation, and how one comes there. */
export interface Following {
  /** As it is now; false is set by whoever goes elsewhere. */
  isAtEnd: RefObject<boolean>
  /** As it was drawn. */
  isFollowing: boolean
  toEnd(): void
  /** Looks where one is after a scroll; answers whether somebody went upwards. */
  look(box: HTMLElement): boolean
  /** For the element that scrolls: what tells that a person moves it. */
  gestures: Pick<React.DOMAttributes<HTMLElement>, 'onWheel' | 'onTouchMove' | 'onKeyDown' | 'onPointerDown'>
}

/** Who looks at the end goes on looking at it; whoever reads elsewhere is not moved. */
export function useFollowing({ messages, scroller, onSeen }: Followed): Following {
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
    // What is drawn anew, grows, or is let go moves the place too: only a person leaves the end.
    const isMoved = box.scrollHeight !== height && !isGesture()
    if (isNearEnd(box)) isAtEnd.current = true
    else if (isUp && !isMoved) isAtEnd.current = false
    if (isAtEnd.current && isMoved) toEnd()
    else last.current = { top: box.scrollTop, height: box.scrollHeight }
    setFollowing(isAtEnd.current)
    return isUp && !isMoved
  }

  useStayingAtEnd(scroller, messages, isAtEnd, toEnd)
  useSeeing(messages, isAtEnd, onSeen)
  return { isAtEnd, isFollowing, toEnd, look, gestures }
}

const isNearEnd = (box: HTMLElement) => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX

/** Whether a person moves what scrolls. */
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
  // biome-ignore lint/correctness/useExhaustiveDependencies: with each change of a message the end may lie elsewhere
  useLayoutEffect(() => {
    if (isAtEnd.current) toEnd()
  }, [messages, isAtEnd, toEnd])
  useEffect(() => {
    const box = scroller.current
    if (box === null) return
    const observer = new ResizeObserver(() => isAtEnd.current && toEnd())
    for (const part of [box, ...box.children]) observer.observe(part)
    return () => observer.disconnect()
  }, [scroller, isAtEnd, toEnd])
}

/** Tells of the newest message while one looks at the end. */
function useSeeing(messages: readonly Message[], isAtEnd: RefObject<boolean>, onSeen: (last: Message) => void): void {
  const seen = useRef(onSeen)
  seen.current = onSeen
  useLayoutEffect(() => {
    const look = () => {
      const last = messages.at(-1)
      if (!document.hidden && last !== undefined && isAtEnd.current) seen.current(last)
    }
    look()
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [messages, isAtEnd])
}

interface KeepingNewest {
  count: number
  following: Following
  list: RefObject<VirtualizerHandle | null>
  keepNewest(count: number): void
}

/** Who looks at the end keeps the newest messages; whoever reads elsewhere keeps all that there are. */
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
