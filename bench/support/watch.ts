import type { Generation } from './model.ts'
import { now } from './model.ts'
import { AGENT_ACTIVITY, SEND_MESSAGE, SPACE_MESSAGES } from './operations.ts'
import type { Room } from './stack.ts'

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

/** Subscribes to a room, where messages may end otherwise than whole if `mayFail`, and resolves once the subscription stands (its snapshot has come). */
export async function watchRoom({ human, spaceId }: Room, { mayFail = false } = {}): Promise<Watch> {
  const arrivedAt = new Map<string, number>()
  const tails = new Map<string, string>()
  let whole = 0
  let count = -1
  let onDelta: ((at: number) => void) | null = null
  const lookers = new Set<() => void>()
  const events = human.subscribe(SPACE_MESSAGES, { spaceId }, ({ spaceMessages: event }) => {
    count += 1
    if (event.__typename === 'MessageTextDelta') {
      const at = now()
      onDelta?.(at)
      onDelta = null
      const text = (tails.get(event.messageId) ?? '') + event.delta
      const end = text.lastIndexOf(' ') + 1
      for (const token of text.slice(0, end).split(' ')) if (token !== '') arrivedAt.set(token, at)
      tails.set(event.messageId, text.slice(end))
    } else if (event.__typename === 'MessageFinished') {
      if (event.message.status !== 'COMPLETE' && !mayFail) throw new Error(`a message ended ${event.message.status}`)
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
    arrivedAt,
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

/** How long each token took from the model's socket to the subscriber, in ms. @throws when one never arrived. */
export function delaysOf(generations: Generation[], arrivedAt: Map<string, number>): number[] {
  return generations.flatMap(({ n, sentAt }) =>
    // The last piece closes the input and is no token.
    sentAt.slice(0, -1).map((sent, index) => {
      const arrived = arrivedAt.get(`${n}.${index}`)
      if (arrived === undefined) throw new Error(`token ${n}.${index} never arrived`)
      return arrived - sent
    }),
  )
}
