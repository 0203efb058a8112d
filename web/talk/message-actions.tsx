import { lazy, memo, Suspense, useRef, useState } from 'react'
import type { Message } from '../../client/index.ts'
import { useSession } from '../session.tsx'
import { Icon } from '../ui/icons.tsx'
import type { Surface } from './message-menu.tsx'
import { mayReact, mayReply, useMessageVerbs } from './message-verbs.tsx'

// Loaded separately, to keep the first load small.
const load = () => import('./message-menu.tsx')
const MessageSurface = lazy(() => load().then(({ MessageSurface: surface }) => ({ default: surface })))

/** The buttons of a message: a reaction, and a menu with everything else. */
export const MessageActions = memo(function MessageActions({ message }: { message: Message }) {
  const session = useSession()
  const verbs = useMessageVerbs()
  const [surface, setSurface] = useState<Surface | null>(null)
  const box = useRef<HTMLDivElement>(null)
  const opener = useRef<HTMLButtonElement>(null)
  if (verbs === null || message.deletedAt !== null || verbs.editingId === message.id) return null
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: loads the menu before it is opened
    <div
      ref={box}
      className={`message-actions ${surface === null ? '' : 'open'}`}
      onPointerEnter={() => void load()}
      onFocus={() => void load()}
    >
      {mayReact(message, session) && (
        <button
          type="button"
          className="icon-button only-wide"
          title="React"
          aria-label="React"
          aria-haspopup="dialog"
          onClick={({ currentTarget }) => {
            opener.current = currentTarget
            setSurface('react')
          }}
        >
          <Icon name="smile" />
        </button>
      )}
      {verbs.openThread !== null && mayReply(message, session) && (
        <button
          type="button"
          className="icon-button only-wide"
          title="Reply in thread"
          aria-label="Reply in thread"
          onClick={() => verbs.openThread?.(message.id)}
        >
          <Icon name="reply" />
        </button>
      )}
      <button
        type="button"
        className="icon-button"
        title="More"
        aria-label="Message actions"
        aria-haspopup="menu"
        aria-expanded={surface === 'menu'}
        onClick={({ currentTarget }) => {
          opener.current = currentTarget
          setSurface('menu')
        }}
      >
        <Icon name="dots" />
      </button>
      {surface !== null && (
        <Suspense>
          <MessageSurface
            message={message}
            verbs={verbs}
            surface={surface}
            onSurface={setSurface}
            anchor={box}
            opener={opener}
          />
        </Suspense>
      )}
    </div>
  )
})
