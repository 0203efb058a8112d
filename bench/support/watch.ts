import { now } from './model.ts'
import { AGENT_ACTIVITY, SEND_MESSAGE, SPACE_MESSAGES } from './operations.ts'
import type { Room } from './stack.ts'
import { createTokenNotes } from './tokens.ts'

/** What one subscriber of a room saw. */
export interface Watch {
  /** When each token arrived, by `<n>.<index>`. */
  arrivedAt: Map<string, number>
  /** When the first delta since the last `expectDelta` arrived. */
  expectDelta(): Promise<number>
  /** How many came, after the snapshot. */
  events(): number
  /** So many messages of agents are whole. */
  whole(): number
  /** Calls back whenever one more is. */
  onWhole(look: () => void): () => void
  /** Resolves once `count` are. */
  finished(count: number): Promise<void>
  stop(): void
}

/** Subscribes to a room, and resolves once the subscription stands (its snapshot has come). It keeps all that it saw. */
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

/** Says something in the room, as its human; answers when the mutation did. */
export async function say({ human, spaceId }: Room): Promise<void> {
  const { sendMessage } = await human.send(SEND_MESSAGE, { spaceId, text: 'Hello there, what do you see?' })
  if (sendMessage.__typename !== 'SendMessagePayload') throw new Error(sendMessage.message)
}

/** Calls back each time the room's agent has said something and is idle: that it was busy may never show, where a run is short. */
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
