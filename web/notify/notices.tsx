import { useEffect, useRef, useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { Connection, ViewerNotice } from '../../client/index.ts'
import { useSession } from '../session.tsx'
import { MARK_READ, MESSAGE_PLACE } from '../talk/operations.ts'
import { IconButton } from '../ui/button.tsx'
import { NOTIFICATION_SETTINGS } from './operations.ts'
import { registerWorker, renewSubscription } from './push.ts'

const SHOWN_MS = 12_000
const MOST_SHOWN = 3

const WORDS: Record<string, string> = {
  DECISION_WAITING: 'A tool call waits for your decision in {space}.',
  MENTION: 'Somebody mentioned you in {space}.',
  MESSAGE: 'There is a new message in {space}.',
  RUN_FAILED: 'A run that worked for you in {space} has failed.',
}

/** @param space the name of the space; undefined if the notice has none, or the viewer does not see it */
const wordsOf = (kind: string, space: string | undefined) =>
  (WORDS[kind] ?? 'There is something new in {space}.').replace(' in {space}', () =>
    space === undefined ? '' : ` in ${space}`,
  )

function pathOf({ kind, spaceId, messageId, runId }: ViewerNotice): string {
  if (kind === 'RUN_FAILED' && runId !== null) return `/runs/${runId}`
  if (kind === 'DECISION_WAITING' && (spaceId === null || messageId === null)) return '/waiting'
  return messageId === null ? `/spaces/${spaceId ?? ''}` : `/spaces/${spaceId}#${messageId}`
}

/** Tells the server that the person has seen a failed run, so that no email is sent about it. */
async function markSeen(connection: Connection, { kind, spaceId, messageId }: ViewerNotice): Promise<void> {
  if (kind !== 'RUN_FAILED' || spaceId === null || messageId === null) return
  await connection.ask(MARK_READ, { spaceId, messageId }).catch(() => {})
}

/** Returns whether the visible page shows the object of the notice; false if this is unknown. A reply is shown in its thread. */
async function isInFront(connection: Connection, { spaceId, messageId }: ViewerNotice, at: string): Promise<boolean> {
  if (document.hidden || at !== `/spaces/${spaceId}`) return false
  if (messageId === null) return true
  const answer = await connection.ask(MESSAGE_PLACE, { id: messageId }).catch(() => null)
  if (answer === null) return false
  const threadId = answer.message?.threadRootId ?? null
  return threadId === null || threadId === new URLSearchParams(location.search).get('thread')
}

/** Shows new notices for a few seconds, each with a link, except notices about the current page. */
export function Notices() {
  const { connection, viewer, actingUntil } = useSession()
  const [at] = useLocation()
  const [shown, setShown] = useState<ViewerNotice[]>([])
  const last = useRef(0)
  const { notices } = viewer
  // The person has not seen what an admin sees for them.
  const isActedFor = actingUntil !== null
  useEffect(() => {
    const added = notices.filter(({ number }) => number > last.current)
    last.current = notices.at(-1)?.number ?? last.current
    const show = async (notice: ViewerNotice) => {
      if (await isInFront(connection, notice, at)) {
        if (!isActedFor) await markSeen(connection, notice)
      } else {
        // Equal notices are shown once, with a link to the newest object.
        const isEqual = (other: ViewerNotice) => other.kind === notice.kind && other.spaceId === notice.spaceId
        setShown((before) => [...before.filter((other) => !isEqual(other)), notice].slice(-MOST_SHOWN))
      }
    }
    for (const notice of added) void show(notice)
  }, [connection, notices, at, isActedFor])
  useEffect(() => {
    if (shown.length === 0) return
    const timer = setTimeout(() => setShown((before) => before.slice(1)), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [shown])
  useWorker()

  const close = (closed: ViewerNotice) => setShown((before) => before.filter((notice) => notice !== closed))
  return (
    <section className="notices" aria-label="Notices" role="status">
      {shown.map((notice) => (
        <p key={notice.number} className="notice">
          <Link
            href={pathOf(notice)}
            className="grow"
            onClick={() => {
              if (!isActedFor) void markSeen(connection, notice)
              close(notice)
            }}
          >
            {wordsOf(notice.kind, viewer.spaces.find(({ id }) => id === notice.spaceId)?.name)}
          </Link>
          <IconButton label="Close the notice" icon="cross" onClick={() => close(notice)} />
        </p>
      ))}
    </section>
  )
}

/**
 * Registers the service worker, keeps the push subscription of this browser up to date, and opens the pages of tapped push
 * messages.
 */
function useWorker(): void {
  const { connection, humanId } = useSession()
  const [, go] = useLocation()
  useEffect(() => {
    if (!('serviceWorker' in navigator)) return
    // Errors are ignored, because the console also works without push messages.
    registerWorker()
      .then(async () => {
        const { viewer } = await connection.ask(NOTIFICATION_SETTINGS, {})
        if (viewer.pushPublicKey !== null && humanId !== null)
          await renewSubscription(connection, viewer.pushPublicKey, humanId)
      })
      .catch(() => {})
  }, [connection, humanId])
  useEffect(() => {
    const onMessage = ({ data }: MessageEvent) => {
      if (data?.type !== 'open' || typeof data.path !== 'string' || !/^\/(?!\/)/.test(data.path)) return
      const [path, hash] = data.path.split('#')
      go(path)
      if (hash !== undefined) location.hash = hash
    }
    navigator.serviceWorker?.addEventListener('message', onMessage)
    return () => navigator.serviceWorker?.removeEventListener('message', onMessage)
  }, [go])
}
