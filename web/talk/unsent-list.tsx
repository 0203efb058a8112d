import { createContext, type ReactNode, use, useEffect, useMemo } from 'react'
import { useLive } from '../../client/react.ts'
import { useSession } from '../session.tsx'
import { IconButton } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { createOutbox, type Outbox, type Unsent } from './outbox.ts'

const OutboxContext = createContext<Outbox | null>(null)

/** Null for viewers who cannot post. */
export const useOutbox = (): Outbox | null => use(OutboxContext)

/** Sends the unsent messages, regardless of which page is open. */
export function OutboxProvider({ children }: { children: ReactNode }) {
  const { connection, humanId } = useSession()
  const outbox = useMemo(() => (humanId === null ? null : createOutbox(connection, humanId)), [connection, humanId])
  useEffect(() => outbox?.start(), [outbox])
  return <OutboxContext value={outbox}>{children}</OutboxContext>
}

const EMPTY: readonly Unsent[] = []
const NOTHING = { getState: () => EMPTY, subscribe: () => () => {} }

/** The messages of a space that could not be sent yet. */
export function useUnsent(spaceId: string): readonly Unsent[] {
  const all = useLive(useOutbox() ?? NOTHING)
  return useMemo(() => all.filter((one) => one.spaceId === spaceId), [all, spaceId])
}

/** @param replyToId shows only messages to this thread; if absent, only messages outside of threads */
export function UnsentList({ spaceId, replyToId }: { spaceId: string; replyToId?: string | undefined }) {
  const outbox = useOutbox()
  const unsent = useUnsent(spaceId).filter((one) => one.replyToId === replyToId)
  return (
    <div role="status" aria-label="Not sent yet" className="unsent">
      {unsent.map(({ idempotencyKey, text, fileIds, refusal }) => (
        <div key={idempotencyKey} className={refusal === null ? 'unsent-message' : 'unsent-message refused'}>
          <Icon name="clock" size={16} />
          <span className="grow">
            <span className="unsent-text" dir="auto">
              {text || `${fileIds.length} ${fileIds.length === 1 ? 'file' : 'files'}`}
            </span>
            <small>
              {refusal ?? 'Not sent yet: the server does not respond. It will be sent again automatically.'}
            </small>
          </span>
          <IconButton label="Try again now" icon="retry" onClick={() => outbox?.retry(idempotencyKey)} />
          <IconButton label="Discard this message" icon="cross" onClick={() => outbox?.discard(idempotencyKey)} />
        </div>
      ))}
    </div>
  )
}
