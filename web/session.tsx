import { createContext, type ReactNode, use, useCallback, useEffect, useMemo, useState } from 'react'
import { type Connection, createConnection, type ViewerState } from '../client/index.ts'
import { useLive, useViewer } from '../client/react.ts'

const TOKEN_KEY = 'parley.token'
const OPERATOR_KEY = 'parley.operator'

/**
 * The viewer of the console: the token of this tab, and the operator's token while an operator continues as a
 * person.
 */
export interface Session {
  connection: Connection
  viewer: ViewerState
  isAdmin: boolean
  isHuman: boolean
  /** The human's id; null for other viewers. */
  humanId: string | null
  /** Whether there is an operator to return to. */
  mayGoBack: boolean
  /** Continues as somebody else. An operator's own token is kept. */
  become(token: string): void
  goBack(): void
  signOut(): void
}

const SessionContext = createContext<Session | null>(null)

export function useSession(): Session {
  const session = use(SessionContext)
  if (session === null) throw new Error('useSession must be called inside a SessionProvider')
  return session
}

/** The token of this tab, forgotten when the tab is closed. */
export function useToken() {
  const [token, setToken] = useState(() => sessionStorage.getItem(TOKEN_KEY))
  const keep = useCallback((next: string | null) => {
    if (next === null) sessionStorage.removeItem(TOKEN_KEY)
    else sessionStorage.setItem(TOKEN_KEY, next)
    setToken(next)
  }, [])
  return [token, keep] as const
}

interface SessionProviderProps {
  token: string
  onToken(token: string | null): void
  /** The server does not accept the token, or no longer does. */
  onRefused(): void
  children: ReactNode
}

/** Connects with a token, and provides the session to its children. */
export function SessionProvider({ token, onToken, onRefused, children }: SessionProviderProps) {
  const connection = useMemo(() => createConnection({ token }), [token])
  useEffect(() => () => connection.close(), [connection])
  const viewer = useViewer(connection)
  const state = useLive(connection)
  const isRefused = state === 'refused' || viewer.error?.code === 'UNAUTHENTICATED'
  useEffect(() => {
    if (isRefused) onRefused()
  }, [isRefused, onRefused])

  const session = useMemo<Session>(() => {
    const scope = viewer.viewer?.scope
    return {
      connection,
      viewer,
      isAdmin: scope === 'ADMIN',
      isHuman: scope === 'HUMAN',
      humanId: viewer.viewer?.human?.id ?? null,
      mayGoBack: sessionStorage.getItem(OPERATOR_KEY) !== null,
      become(next) {
        if (scope === 'ADMIN') sessionStorage.setItem(OPERATOR_KEY, token)
        onToken(next)
      },
      goBack() {
        const operator = sessionStorage.getItem(OPERATOR_KEY)
        sessionStorage.removeItem(OPERATOR_KEY)
        onToken(operator)
      },
      signOut() {
        sessionStorage.clear()
        onToken(null)
      },
    }
  }, [connection, viewer, token, onToken])

  return <SessionContext value={session}>{children}</SessionContext>
}
