import { now } from './model.ts'
import { AGENT_ACTIVITY, SEND_MESSAGE, SPACE_MESSAGES } from './operations.ts'
import type { Room } from './stack.ts'
import { createTokenNotes } from './tokens.ts'

/** The tokens, events and messages that one subscriber of a room has received. */
export interface Watch {
  /** When each token arrived, by `<n>.<index>`. */
  arrivedAt: Map<string, number>
  /** Resolves to the arrival time of the first delta after this call. */
  expectDelta(): Promise<number>
  /** Returns the number of events after the snapshot. */
  events(): number
  /** Returns the number of complete messages by agents. */
  whole(): number
  /** Calls `look` for each further complete message. Returns a function that stops this. */
  onWhole(look: () => void): () => void
  /** Resolves once there are `count` complete messages. */
  finished(count: number): Promise<void>
  stop(): void
}

/**
 * Subscribes to a room, and resolves once the snapshot has arrived, which shows that the subscription is active. Records all
 * events.
 */
export async function watchRoom({ human, spaceId }: Room): Promise<Watch> {
  const tokens = createTokenNotes()
  let whole = 0
  let count = -1
  let onDelta: ((at: number) => void) | null = null
  const lookers = new Set<() => void>()
  const events = human.subscribe(SPACE_MESSAGES, { spaceId }, ({ spaceMessages: event }) => {
    count += 1
    if (event.__typename === 'MessageTextDelta') {
      onDelta?.(now())
      onDelta = null
      tokens.note(event.messageId, event.delta)
    } else if (event.__typename === 'MessageFinished') {
      if (event.message.status !== 'COMPLETE') throw new Error(`a message ended ${event.message.status}`)
      whole += 1
      for (const look of lookers) look()
    }
  })
  await events.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')
  const onWhole = (look: () => void) => {
    lookers.add(look)
    return () => lookers.delete(look)
  }
  return {
    arrivedAt: tokens.arrivedAt,
    events: () => count,
    expectDelta: () =>
      new Promise((resolve) => {
        onDelta = resolve
      }),
    whole: () => whole,
    onWhole,
    finished: (count) =>
      new Promise((resolve) => {
        const stop = onWhole(look)
        function look() {
          if (whole < count) return
          stop()
          resolve()
        }
        look()
      }),
    stop: events.stop,
  }
}

/** Posts in the room as its human. Resolves when the mutation has returned. */
export async function say({ human, spaceId }: Room): Promise<void> {
  const { sendMessage } = await human.send(SEND_MESSAGE, { spaceId, text: 'Hello there, what do you see?' })
  if (sendMessage.__typename !== 'SendMessagePayload') throw new Error(sendMessage.message)
}

/**
 * Calls back each time the room's agent has posted and is idle. The end of a run is no signal, because a short run may never
 * show the agent as busy.
 */
export async function watchRuns({ human, spaceId }: Room, watch: Watch, onEnd: () => void): Promise<() => void> {
  let isIdle = true
  let told = watch.whole()
  const look = () => {
    if (!isIdle || watch.whole() === told) return
    told = watch.whole()
    onEnd()
  }
  const stop = watch.onWhole(look)
  const events = human.subscribe(AGENT_ACTIVITY, { spaceId }, ({ agentActivity: { active, runs } }) => {
    isIdle = !active && runs.length === 0
    look()
  })
  await events.first(() => true)
  return () => {
    stop()
    events.stop()
  }
}
