import { createContext, type ReactNode, use, useCallback, useEffect, useMemo, useState } from 'react'
import { useLocation } from 'wouter'
import { type Connection, createConnection, type ViewerState } from '../client/index.ts'
import { useLive, useViewer } from '../client/react.ts'
import { addressOf, basePath } from './location.ts'
import { unsubscribe } from './notify/push.ts'
import { forgetKept } from './talk/kept.ts'

/** The keys contain the path prefix, because servers under different prefixes of one host share the browser's storage. */
const TOKEN_KEY = `parley.token${basePath}`
const OPERATOR_KEY = `parley.operator${basePath}`
/** Stored instead of a token if the operator signed in with the session cookie, which still exists. */
const BY_COOKIE = 'cookie'
const ACTING_KEY = `parley.acting${basePath}`
/** Set if the operator acts as a person. The operator is not a human. */
const BY_OPERATOR_KEY = `parley.acting-operator${basePath}`

/** The viewer of the console, and who the viewer was before acting as somebody else. */
export interface Session {
  connection: Connection
  viewer: ViewerState
  isAdmin: boolean
  isHuman: boolean
  /** The human's id; null for other viewers. */
  humanId: string | null
  /** Whether there is an operator or admin to return to. */
  mayGoBack: boolean
  /** Until when an admin acts as this human; null if no admin does. */
  actingUntil: string | null
  /** Whether the operator acts as this human. Then messages have no `actingAdmin`. */
  isActedByOperator: boolean
  /** Continues as somebody else. `actingUntil` is set for a token of `actAs`. The operator's own token is kept. */
  become(token: string, actingUntil?: string): void
  /** Continues as the operator or admin, on the page from which they started to act as somebody else. */
  goBack(): void
  signOut(): void
}

const SessionContext = createContext<Session | null>(null)

export function useSession(): Session {
  const session = use(SessionContext)
  if (session === null) throw new Error('useSession must be called inside a SessionProvider')
  return session
}

/** How the console signs in: with a token that this tab forgets when it is closed, or with the browser's session cookie. */
export type Credential = { token: string } | 'cookie'

/** Null if nobody is signed in; `unknown` until the server has answered whether this browser has a session. */
export function useCredential() {
  const [credential, setCredential] = useState<Credential | null | 'unknown'>(() => {
    const token = sessionStorage.getItem(TOKEN_KEY)
    return token === null ? 'unknown' : { token }
  })
  const keep = useCallback((next: Credential | null) => {
    if (next === null || next === 'cookie') sessionStorage.removeItem(TOKEN_KEY)
    else sessionStorage.setItem(TOKEN_KEY, next.token)
    setCredential(next)
  }, [])
  const isUnknown = credential === 'unknown'
  useEffect(() => {
    if (isUnknown) void hasSession().then((has) => setCredential(has ? 'cookie' : null))
  }, [isUnknown])
  return [credential, keep] as const
}

/** Returns the headers that authenticate a request of this tab outside of the connection. */
export function credentialHeaders(): Record<string, string> {
  const token = sessionStorage.getItem(TOKEN_KEY)
  return token === null ? { 'x-parley-csrf': '1' } : { authorization: `Bearer ${token}` }
}

const CSRF = { 'x-parley-csrf': '1', 'content-type': 'application/json' }

/** Returns null if the server does not accept the token or the cookie. @throws if the server cannot check them */
async function scopeOf(headers: Record<string, string>): Promise<string | null> {
  const answer = await fetch(addressOf('/auth/session'), { headers })
  if (answer.status === 403) return null
  if (!answer.ok) throw new Error(`GET /auth/session returned HTTP status ${answer.status}.`)
  return ((await answer.json()) as { scope: string | null }).scope
}

/**
 * Returns whether this browser has a session. A missing response does not mean that the server rejected the session, so the
 * connection tries again, and shows that it does.
 */
export async function hasSession(): Promise<boolean> {
  try {
    return (await scopeOf(CSRF)) !== null
  } catch {
    return true
  }
}

/**
 * Signs in with a token. A person stays signed in to this browser with a cookie. The tokens of operators, admins and services
 * stay in this tab. So does a person's token if the browser does not send the cookie, which is `Secure`, or set for another
 * path, if the server's address differs from PARLEY_PUBLIC_URL.
 */
export async function signInWith(token: string): Promise<Credential> {
  try {
    if ((await scopeOf({ authorization: `Bearer ${token}` })) !== 'HUMAN') return { token }
    const opened = await fetch(addressOf('/auth/token'), {
      method: 'POST',
      headers: CSRF,
      body: JSON.stringify({ token }),
    })
    return opened.ok && (await scopeOf(CSRF)) !== null ? 'cookie' : { token }
  } catch {
    return { token }
  }
}

interface SessionProviderProps {
  /** The token; null if the session cookie is used. */
  token: string | null
  /** Continues with another token in this tab; null: signs out. */
  onToken(token: string | null): void
  /** Called when the server does not accept the token or the cookie, or no longer does. */
  onRefused(): void
  children: ReactNode
}

/** Connects, and provides the session to its children. */
export function SessionProvider({ token, onToken, onRefused, children }: SessionProviderProps) {
  const connection = useMemo(() => createConnection({ url: addressOf('/graphql'), token: token ?? undefined }), [token])
  useEffect(() => () => connection.close(), [connection])
  const viewer = useViewer(connection)
  const state = useLive(connection)
  const [, go] = useLocation()
  const isRefused = state === 'refused' || viewer.error?.code === 'UNAUTHENTICATED'
  useEffect(() => {
    if (isRefused) onRefused()
  }, [isRefused, onRefused])

  const session = useMemo<Session>(() => {
    const scope = viewer.viewer?.scope
    return {
      connection,
      viewer,
      isAdmin: viewer.viewer?.isAdmin ?? false,
      isHuman: scope === 'HUMAN',
      humanId: viewer.viewer?.human?.id ?? null,
      mayGoBack: sessionStorage.getItem(OPERATOR_KEY) !== null,
      actingUntil: sessionStorage.getItem(ACTING_KEY),
      isActedByOperator: sessionStorage.getItem(BY_OPERATOR_KEY) !== null,
      become(next, actingUntil) {
        if (viewer.viewer?.isAdmin) sessionStorage.setItem(OPERATOR_KEY, token ?? BY_COOKIE)
        if (actingUntil !== undefined) {
          sessionStorage.setItem(ACTING_KEY, actingUntil)
          if (scope === 'ADMIN') sessionStorage.setItem(BY_OPERATOR_KEY, 'yes')
        }
        onToken(next)
      },
      goBack() {
        const operator = sessionStorage.getItem(OPERATOR_KEY)
        // The pages with the buttons “Act as” and “Try it”.
        const origin = sessionStorage.getItem(ACTING_KEY) === null ? '/start' : '/people'
        for (const key of [OPERATOR_KEY, ACTING_KEY, BY_OPERATOR_KEY]) sessionStorage.removeItem(key)
        if (operator !== BY_COOKIE) {
          onToken(operator)
          return go(origin)
        }
        // Without a token, the page signs in with the cookie.
        sessionStorage.removeItem(TOKEN_KEY)
        location.assign(addressOf(origin))
      },
      signOut() {
        for (const key of [TOKEN_KEY, OPERATOR_KEY, ACTING_KEY, BY_OPERATOR_KEY]) sessionStorage.removeItem(key)
        forgetKept()
        // When the session ends, the server also ends the subscription.
        void unsubscribe(null).catch(() => {})
        if (token !== null) return onToken(null)
        const ended = fetch(addressOf('/auth/sign-out'), { method: 'POST', headers: CSRF })
        void ended.catch(() => {}).then(() => onToken(null))
      },
    }
  }, [connection, viewer, token, onToken, go])

  return <SessionContext value={session}>{children}</SessionContext>
}
