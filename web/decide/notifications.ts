import { useEffect, useRef } from 'react'
import { useLocation } from 'wouter'
import type { ViewerState } from '../../client/index.ts'
import { isSubscribed } from '../notify/push.ts'

/**
 * Shows the numbers of unread messages and waiting calls in the page title, and a system notification for each new waiting call
 * if this is permitted.
 */
export function useNotifications({ unreadCount, pendingToolCalls, spaces, status, viewer }: ViewerState): void {
  const waiting = pendingToolCalls.length
  useEffect(() => {
    const write = () => {
      const page = document.body.dataset['page'] ?? 'Parley'
      const counts = [unreadCount > 0 ? `(${unreadCount})` : '', waiting > 0 ? '●' : ''].filter(Boolean).join(' ')
      document.title = [counts, page === 'Parley' ? 'Parley' : `${page} · Parley`].filter(Boolean).join(' ')
    }
    write()
    document.addEventListener('page-title', write)
    return () => document.removeEventListener('page-title', write)
  }, [unreadCount, waiting])

  const unreadMentions = spaces.reduce((sum, space) => sum + space.unreadMentions, 0)
  useEffect(() => {
    // Sets the badge of the installed app, in browsers that support badges.
    void (navigator as { setAppBadge?(count: number): Promise<void> }).setAppBadge?.(unreadMentions).catch(() => {})
  }, [unreadMentions])

  const [, go] = useLocation()
  const known = useRef<Set<string> | null>(null)
  useEffect(() => {
    if (status !== 'live') return
    const before = known.current
    known.current = new Set(pendingToolCalls.map(({ id }) => id))
    // A push message already reports the call.
    const isPushed = isSubscribed(viewer?.human?.id ?? null)
    if (
      before === null ||
      isPushed ||
      !('Notification' in window) ||
      Notification.permission !== 'granted' ||
      !document.hidden
    )
      return
    for (const call of pendingToolCalls.filter(({ id }) => !before.has(id))) {
      const body = [call.toolName, call.message?.space.name].filter(Boolean).join(' in ')
      const note = new Notification(`${call.agent.name} waits for you`, { body, tag: call.id })
      note.onclick = () => {
        window.focus()
        go('/waiting')
      }
    }
  }, [pendingToolCalls, status, viewer, go])
}
