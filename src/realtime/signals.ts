import type { SignalPayload } from './topics.ts'

/**
 * Ephemeral news to whoever listens now, in whichever process: at most once, nothing is kept. Who listens must be able to
 * look up what it may have missed.
 */
export interface Signals {
  /**
   * Never throws, and waits for nothing: it resolves at once. What cannot be sent within about 5 s is lost, and said in
   * the log. What one process publishes to one channel keeps its order while the connection stands. `beside`: a topic of the event
   * log to which something is told in the same breath; the signal goes with that where it can, and then waits with it for Redis.
   */
  publish(channel: string, payload: SignalPayload, beside?: string): Promise<void>
  /**
   * Resolves when the subscription stands: what is published after that arrives. Comes back with the way to end it,
   * after which the listener is not called again. While Redis is away it waits; it rejects only when closed meanwhile.
   */
  subscribe(channel: string, listener: (payload: SignalPayload) => void): Promise<() => void>
  /** Called when a lost connection is back and all subscriptions stand again: signals may be lost, look things up. */
  onReconnect(listener: () => void): () => void
  close(): Promise<void>
}
