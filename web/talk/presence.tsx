import { useEffect, useRef, useState } from 'react'
import type { ConsolePresenceSubscription } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { useSession } from '../session.tsx'
import { MEMBERS_PRESENCE, PRESENCE_CHANGES, SET_TYPING } from './operations.ts'

type Change = Extract<
  ConsolePresenceSubscription['spaceMessages'],
  { __typename: 'MemberPresenceChanged' }
>['changes'][number]

export type Presence = Change['presence']

/** The presence of the people of a space, and the names of those who type. */
export interface SpacePresence {
  of(humanId: string): Presence
  typing: readonly string[]
}

/** Follows presence and typing in a space. */
export function useSpacePresence(spaceId: string): SpacePresence {
  const { connection, humanId } = useSession()
  const { data, refetch } = useAsk(MEMBERS_PRESENCE, { id: spaceId })
  const [changes, setChanges] = useState<ReadonlyMap<string, Change>>(new Map())
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    setChanges(new Map())
    return connection.watch(
      PRESENCE_CHANGES,
      { spaceId },
      {
        onData({ spaceMessages: event }) {
          // This also runs after a lost connection, during which changes were missed.
          if (event.__typename === 'SpaceSnapshot') {
            setChanges(new Map())
            void refetch()
          }
          if (event.__typename !== 'MemberPresenceChanged') return
          setNow(Date.now())
          setChanges((before) => new Map([...before, ...event.changes.map((one) => [one.entity.id, one] as const)]))
        },
        onEnd: () => setChanges(new Map()),
      },
    )
  }, [connection, spaceId, refetch])
  const until = [...changes.values()].map(({ typingUntil }) => (typingUntil === null ? 0 : Date.parse(typingUntil)))
  const next = Math.min(...until.filter((time) => time > now))
  useEffect(() => {
    if (!Number.isFinite(next)) return
    const timer = setTimeout(() => setNow(Date.now()), Math.max(0, next - Date.now()) + 1)
    return () => clearTimeout(timer)
  }, [next])
  const read = new Map(
    (data?.space?.members ?? []).flatMap((member) =>
      member.__typename === 'Human' ? [[member.id, member.presence] as const] : [],
    ),
  )
  return {
    of: (id) => changes.get(id)?.presence ?? read.get(id) ?? 'OFFLINE',
    typing: [...changes.values()].flatMap(({ entity, typingUntil }) =>
      typingUntil !== null && Date.parse(typingUntil) > now && entity.id !== humanId ? [entity.name] : [],
    ),
  }
}

const WORDS: Record<string, string> = { ONLINE: 'online', AWAY: 'away', OFFLINE: 'offline' }

/** A dot next to a person's name. */
export function PresenceDot({ presence }: { presence: Presence }) {
  const words = WORDS[presence] ?? 'offline'
  return <span className={`presence ${words}`} role="img" aria-label={words} title={words} />
}

const MOST_NAMED = 3

/** “Alice is typing…” */
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

/** Returns a function to call on each key press, which reports every few seconds to the server that the viewer is typing. */
export function useTypingSignal(spaceId: string): () => void {
  const { connection } = useSession()
  const lastAt = useRef(Number.NEGATIVE_INFINITY)
  return () => {
    if (performance.now() - lastAt.current < EVERY_MS) return
    lastAt.current = performance.now()
    // Typing is only a hint, so a failure does not matter.
    connection.ask(SET_TYPING, { spaceId }).catch(() => {})
  }
}
