import type { BegunComposites } from '../spaces/composite-posting.ts'
import { compositeKey, type Message, type MessagePart } from '../spaces/message.ts'
import { notAMember } from '../tools/space/failures.ts'
import type { RunMessages } from './run-messages.ts'

/** A run's message in one space while it is open for more parts. */
export interface Composite {
  spaceId: string
  postKey: string
  /** Those that are whole. */
  parts: MessagePart[]
  /** Null until its first part begins. */
  message: Promise<Message> | null
}

/** Which message of the run is open in which space: at most one of each. */
export interface CompositeBook {
  /** The open one, or the next. */
  at(spaceId: string): Composite
  /** Begins it, if nothing of it is posted yet. @throws ToolFailure, RunLostError */
  begin(composite: Composite): Promise<Message>
  /** No more parts: the next one begins another message. */
  close(composite: Composite): void
  /** Those of which something is posted. */
  open(): Composite[]
}

interface BookOptions {
  messages: RunMessages
  /** What an earlier claim of the run has begun. */
  begun: BegunComposites[]
}

export function createCompositeBook({ messages, begun }: BookOptions): CompositeBook {
  const open = new Map<string, Composite>()
  const counts = new Map<string, number>()
  for (const { spaceId, count, parts } of begun) {
    counts.set(spaceId, parts === null ? count : count - 1)
    if (parts !== null) begin(at(spaceId, parts)).catch(() => {})
  }

  function at(spaceId: string, parts: MessagePart[] = []): Composite {
    const known = open.get(spaceId)
    if (known !== undefined) return known
    const postKey = compositeKey(spaceId, counts.get(spaceId) ?? 0)
    const composite = { spaceId, postKey, parts, message: null }
    open.set(spaceId, composite)
    return composite
  }

  /** The key makes it the same message however often it is begun. */
  async function post({ spaceId, postKey }: Composite): Promise<Message> {
    const message = await messages.begin(spaceId, postKey)
    if (message === null) throw notAMember()
    return message
  }

  function begin(composite: Composite): Promise<Message> {
    if (composite.message !== null) return composite.message
    const message = post(composite)
    composite.message = message
    message.catch(() => {
      composite.message = null
    })
    return message
  }

  return {
    at: (spaceId) => at(spaceId),
    begin,
    close({ spaceId }) {
      open.delete(spaceId)
      counts.set(spaceId, (counts.get(spaceId) ?? 0) + 1)
    },
    open: () => [...open.values()].filter(({ message }) => message !== null),
  }
}
