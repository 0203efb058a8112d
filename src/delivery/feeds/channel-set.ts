import { createSerial } from '../../lib/async.ts'
import type { Lifeline } from '../feed.ts'

/**
 * The set of channels (or other named sources) that a subscriber listens to during its lifeline. `listen` starts
 * listening to one of them and returns a function that stops listening.
 */
export interface ChannelSet {
  /**
   * Resolves when the set listens to exactly the channels that `channelsNow` returns. Refreshes run one at a time.
   * Before the next refresh starts, `onChange` is called with the added and removed channels.
   */
  refresh(onChange?: (change: { came: string[]; went: string[] }) => void): Promise<void>
}

export function createChannelSet(
  lifeline: Lifeline,
  channelsNow: () => Promise<readonly string[]>,
  listen: (channel: string) => Promise<() => void>,
): ChannelSet {
  const joined = new Map<string, () => void>()
  const serial = createSerial()

  function leave(channel: string): void {
    joined.get(channel)?.()
    joined.delete(channel)
  }

  function leaveAll(): void {
    for (const channel of [...joined.keys()]) leave(channel)
  }

  async function join(channel: string): Promise<void> {
    const stop = await listen(channel)
    // If listening to another channel failed in the meantime, the lifeline has already ended, so this listener must
    // be stopped here.
    if (lifeline.signal.aborted) stop()
    else joined.set(channel, stop)
  }

  async function refresh(): Promise<{ came: string[]; went: string[] }> {
    const now = new Set(await channelsNow())
    const went = [...joined.keys()].filter((channel) => !now.has(channel))
    const came = [...now].filter((channel) => !joined.has(channel))
    for (const channel of went) leave(channel)
    await Promise.all(came.map(join))
    if (lifeline.signal.aborted) leaveAll()
    return { came, went }
  }

  lifeline.onEnd(leaveAll)
  return {
    refresh: (onChange = () => {}) =>
      serial.run(async () => {
        if (lifeline.signal.aborted) return
        onChange(await refresh())
      }),
  }
}
