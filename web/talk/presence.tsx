import { useEffect, useRef, useState } from 'react'
import type { MemberPresence, SpaceState } from '../../client/index.ts'
import { useSession } from '../session.tsx'
import { SET_TYPING } from './operations.ts'

export type Presence = MemberPresence['presence']

/** Returns the names of the other people who are typing. */
export function useTyping({ space, presence }: Pick<SpaceState, 'space' | 'presence'>): readonly string[] {
  const { humanId } = useSession()
  const [now, setNow] = useState(() => Date.now())
  const until = [...presence].map(([id, { typingUntil }]) => [id, Date.parse(typingUntil ?? '') || 0] as const)
  const next = Math.min(...until.flatMap(([, time]) => (time > Date.now() ? [time] : [])))
  useEffect(() => {
    if (!Number.isFinite(next)) return
    const timer = setTimeout(() => setNow(Date.now()), Math.max(0, next - Date.now()) + 1)
    return () => clearTimeout(timer)
  }, [next])
  const at = Math.max(now, Date.now())
  const typing = new Set(until.flatMap(([id, time]) => (time > at && id !== humanId ? [id] : [])))
  return (space?.members ?? []).flatMap(({ id, name }) => (typing.has(id) ? [name] : []))
}

const WORDS: Record<string, string> = { ONLINE: 'online', AWAY: 'away', OFFLINE: 'offline' }

/** A dot next to a person's name. */
export function PresenceDot({ presence }: { presence: Presence }) {
  const words = WORDS[presence] ?? 'offline'
  return <span className={`presence ${words}`} role="img" aria-label={words} title={words} />
}

const MOST_NAMED = 3

/** Returns words such as “Alice is typing…”. */
export function TypingLine({ names }: { names: readonly string[] }) {
  const words =
    names.length > MOST_NAMED
      ? 'Several people are typing…'
      : `${new Intl.ListFormat('en').format(names)} ${names.length === 1 ? 'is' : 'are'} typing…`
  return (
    <p className="typing" role="status" dir="auto">
      {names.length > 0 && words}
    </p>
  )
}

const EVERY_MS = 3000

/** Returns a function to call on each key press. Every few seconds, it reports to the server that the viewer is typing. */
export function useTypingSignal(spaceId: string): () => void {
  const { connection } = useSession()
  const lastAt = useRef(Number.NEGATIVE_INFINITY)
  return () => {
    if (performance.now() - lastAt.current < EVERY_MS) return
    lastAt.current = performance.now()
    // Ignore a failure, because the report is only a hint.
    connection.ask(SET_TYPING, { spaceId }).catch(() => {})
  }
}
