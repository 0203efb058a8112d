import { createSerial } from '../../lib/async.ts'
import type { Lifeline } from './lifeline.ts'

/** The channels, or whatever else goes by a name, that a subscriber listens to as long as its lifeline holds: `listen` begins with one, and answers with the way to stop. */
export interface ChannelSet {
  /**
   * Listens to what `channelsNow` answers, from before this resolves, and to nothing else. One at a time: which channels came
   * and which went is told before the next one looks.
   */
  refresh(tell?: (change: { came: string[]; went: string[] }) => void): Promise<void>
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
    // Where another of them failed meanwhile, nobody comes for this one.
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
    refresh: (tell = () => {}) =>
      serial.run(async () => {
        if (lifeline.signal.aborted) return
        tell(await refresh())
      }),
  }
}
