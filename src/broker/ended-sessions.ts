import type { Signals } from './signals.ts'
import { SESSIONS_CHANNEL, tokenChannel } from './topics.ts'

/** Publishes that sessions have ended, so that every process forgets them and closes their sockets. Call it after the commit. */
export async function publishEndedSessions(signals: Pick<Signals, 'publish'>, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  const all = signals.publish(SESSIONS_CHANNEL, { type: 'ended', ids: [...ids] })
  await Promise.all([all, ...ids.map((id) => signals.publish(tokenChannel(id), { type: 'revoked' }))])
}
