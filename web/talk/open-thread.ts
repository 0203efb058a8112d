import { useCallback, useEffect, useRef } from 'react'
import { useLocation, useSearchParams } from 'wouter'
import { useAsk } from '../ask.ts'
import { useHashTarget } from '../location.ts'
import { MESSAGE_PLACE } from './operations.ts'

/** A message to which the timeline scrolls. */
export interface Target {
  id: string
  seq: number
}

/** The open thread of a space, and the message to which the URL points. */
export interface OpenThread {
  /** The first message of the open thread. */
  rootId: string | null
  /** The message after `#` in the URL, if it is not a reply. */
  target: Target | null
  /** The message after `#` in the URL, if it is a reply in the open thread. */
  targetReply: Target | null
  open(rootId: string): void
  close(): void
}

/**
 * The URL contains the open thread: `?thread=msg_…`. If the URL has only a reply after `#`, or contains a reply as the thread,
 * the thread of the reply opens.
 */
export function useOpenThread(spaceId: string): OpenThread {
  const [params] = useSearchParams()
  const [, go] = useLocation()
  const named = params.get('thread')
  const rootId = named !== null && /^msg_[\w-]+$/.test(named) ? named : null
  const found = useMessageOf(spaceId, useHashTarget())
  const threadOfNamed = useMessageOf(spaceId, rootId)?.threadRootId ?? null
  const foundId = found?.id ?? null
  const threadOfFound = found?.threadRootId ?? null
  useEffect(() => {
    if (threadOfFound !== null && threadOfFound !== rootId)
      go(`/spaces/${spaceId}?thread=${threadOfFound}#${foundId}`, { replace: true })
    else if (threadOfNamed !== null)
      go(`/spaces/${spaceId}?thread=${threadOfNamed}#${foundId ?? rootId}`, { replace: true })
  }, [go, spaceId, rootId, foundId, threadOfFound, threadOfNamed])

  const opener = useRef<Element | null>(null)
  const open = useCallback(
    (id: string) => {
      // When the thread closes, the menu that opened it no longer exists, but the buttons of the message do.
      opener.current = document.getElementById(id)?.querySelector('.thread-line, [aria-haspopup="menu"]') ?? null
      go(`/spaces/${spaceId}?thread=${id}`)
    },
    [go, spaceId],
  )
  const close = useCallback(() => {
    go(`/spaces/${spaceId}`)
    const back = opener.current
    requestAnimationFrame(() => {
      const isThere = back instanceof HTMLElement && back.isConnected
      const field = document.querySelector<HTMLElement>('.talk-main .composer textarea')
      if (isThere) back.focus()
      else field?.focus()
    })
  }, [go, spaceId])
  const isReply = threadOfFound !== null
  return {
    rootId,
    target: isReply ? null : found,
    targetReply: isReply && threadOfFound === rootId ? found : null,
    open,
    close,
  }
}

/** Returns the message, if it belongs to this space. */
function useMessageOf(spaceId: string, id: string | null) {
  const { data } = useAsk(MESSAGE_PLACE, { id: id ?? '' }, { enabled: id !== null })
  const message = data?.message
  return message && message.space.id === spaceId ? message : null
}
