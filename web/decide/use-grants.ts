import { useEffect, useRef } from 'react'
import { useAsk } from '../ask.ts'
import { useSession } from '../session.tsx'
import { GRANTS, GRANTS_TO_DECIDE } from './operations.ts'

/** Admins get no events about grants, so the page polls. */
const ADMIN_EVERY_MS = 4000
/** Many calls under one grant cause only one refetch, after this pause. */
const PAUSE_MS = 400

/** Returns the standing grants of a space or an agent, or all that the viewer may see, and keeps them up to date. */
export function useGrants(filter: { spaceId: string | null; agentId: string | null }) {
  const { isAdmin } = useSession()
  const ask = useAsk(GRANTS, filter, isAdmin ? { everyMs: ADMIN_EVERY_MS } : {})
  useRefetch(ask.refetch)
  return ask
}

/** Returns the number of proposed grants on which the viewer may decide, and keeps it up to date. */
export function useGrantsToDecideCount(): number {
  const { isHuman } = useSession()
  const { data, refetch } = useAsk(GRANTS_TO_DECIDE, {}, { enabled: isHuman })
  useRefetch(refetch)
  return data?.standingGrants.filter(({ mayDecide }) => mayDecide).length ?? 0
}

/** Refetches shortly after grants have changed. */
function useRefetch(refetch: () => unknown): void {
  const { viewer, isHuman } = useSession()
  const { grantsVersion } = viewer
  const seen = useRef(grantsVersion)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => {
    if (!isHuman || seen.current === grantsVersion) return
    seen.current = grantsVersion
    timer.current ??= setTimeout(() => {
      timer.current = undefined
      refetch()
    }, PAUSE_MS)
  }, [grantsVersion, isHuman, refetch])
  useEffect(
    () => () => {
      clearTimeout(timer.current)
      timer.current = undefined
    },
    [],
  )
}
