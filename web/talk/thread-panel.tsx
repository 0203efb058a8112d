import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { LiveSpace, Message, Space } from '../../client/index.ts'
import { useLive } from '../../client/react.ts'
import { useSession } from '../session.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Empty, Loading, Refused } from '../ui/notice.tsx'
import { Announcer } from './announcer.tsx'
import { Composer, type ComposerHandle } from './composer.tsx'
import { MessageVerbsProvider, mayEdit, textOf } from './message-verbs.tsx'
import type { Target } from './open-thread.ts'
import { useReading } from './reading.ts'
import { useSending } from './sending.ts'
import { useStable } from './stable.ts'
import { Timeline } from './timeline.tsx'
import { useFileDrop } from './uploads.tsx'
import { useWriteKey } from './write-key.ts'

interface ThreadPanelProps extends Pick<LiveSpace, 'thread' | 'readThread' | 'send'> {
  space: Space
  /** The first message of the thread. */
  rootId: string
  /** The reply after `#` in the URL. */
  target: Target | null
  onClose(): void
}

/** A thread next to the conversation of its space; on a narrow screen, instead of the conversation. */
export function ThreadPanel({ space, rootId, target, thread, readThread, onClose, ...given }: ThreadPanelProps) {
  const session = useSession()
  const { isHuman, humanId } = session
  const live = useMemo(() => thread(rootId), [thread, rootId])
  const state = useLive(live)
  const { root, replies, hasEarlier, status, error } = state
  const messages = useMemo(
    () => (root === null || hasEarlier ? replies : [root, ...replies]),
    [root, replies, hasEarlier],
  )
  const [editingId, setEditing] = useState<string | null>(null)
  const [send, sentCount] = useSending(given.send)
  const composer = useRef<ComposerHandle>(null)
  const panel = useRef<HTMLElement>(null)
  const fileDrop = useFileDrop(composer)
  const edit = useCallback((id: string | null) => {
    setEditing(id)
    if (id === null) composer.current?.focus()
  }, [])
  const quote = useCallback((message: Message) => composer.current?.quote(textOf(message)), [])
  const editLast = useStable(() => {
    const last = messages.findLast((message) => mayEdit(message, session))
    if (last !== undefined) setEditing(last.id)
  })
  const onMarked = useCallback((seq: number) => readThread(rootId, seq), [readThread, rootId])
  const read = useReading(space.id, onMarked)
  const onSeen = useCallback(
    (message: Message) => {
      // Do not move the read marker of the space, because messages before this one can be unread.
      if (message.threadRootId !== null) read(message)
    },
    [read],
  )
  useEscape(onClose)
  useWriteKey(composer)
  useEffect(() => {
    // Waits, because the menu that opened the panel first returns the focus.
    const frame = requestAnimationFrame(() => (composer.current === null ? panel.current : composer.current)?.focus())
    return () => cancelAnimationFrame(frame)
  }, [])

  return (
    <MessageVerbsProvider
      spaceId={space.id}
      routing={space.routing}
      threadId={rootId}
      openThread={null}
      editingId={editingId}
      edit={edit}
      quote={quote}
    >
      <section className="thread-panel" aria-label="Thread" ref={panel} tabIndex={-1} {...fileDrop}>
        <header className="thread-head">
          <h2>Thread</h2>
          <IconButton label="Close the thread" icon="cross" onClick={onClose} />
        </header>
        {status === 'ended' && (
          <Empty icon="reply" title="There is no such thread in this space">
            <p>The message that started the thread may have been deleted.</p>
          </Empty>
        )}
        {status === 'loading' && error !== null && (
          <Empty icon="reply" title="This thread could not be loaded">
            <p>{error.message}</p>
            <Button icon="retry" onClick={live.reload}>
              Try again
            </Button>
          </Empty>
        )}
        {status === 'loading' && error === null && <Loading what="the thread" />}
        {status === 'live' && (
          <Boundary what="thread">
            {error !== null && (
              <div className="thread-note">
                <p className="note">New replies are missing, because the thread could not be loaded again:</p>
                <Refused error={error} onRetry={live.reload} />
              </div>
            )}
            {root === null && <p className="note thread-note">The message that started this thread was deleted.</p>}
            <Timeline
              label="Messages of the thread"
              beginning={null}
              state={{ ...state, messages, firstUnread: null }}
              loadEarlier={live.loadEarlier}
              loadUntil={live.loadUntil}
              keepNewest={live.keepNewest}
              target={target}
              onSeen={onSeen}
              sentCount={sentCount}
            />
          </Boundary>
        )}
        <Announcer label="New replies" messages={replies} ownId={humanId} />
        {isHuman && status !== 'ended' && (
          <Boundary what="text field">
            <Composer ref={composer} space={space} replyToId={rootId} send={send} onEditLast={editLast} />
          </Boundary>
        )}
      </section>
    </MessageVerbsProvider>
  )
}

/** Calls a function for Escape, unless an overlay above the page handles it. */
function useEscape(onEscape: () => void): void {
  useEffect(() => {
    const onKey = ({ key, target, defaultPrevented, isComposing }: KeyboardEvent) => {
      // An input method uses the same key to end its composition.
      if (key !== 'Escape' || defaultPrevented || isComposing) return
      const isAbove = target instanceof Element && target.closest('[role="dialog"], [role="menu"]') !== null
      if (!isAbove) onEscape()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [onEscape])
}
