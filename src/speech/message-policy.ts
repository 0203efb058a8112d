import type { JsonObject } from '../lib/json.ts'
import type { Message, MessagePart } from '../spaces/message.ts'
import { placementOf } from '../tools/placement.ts'
import { noActiveSpace, notAMember } from '../tools/space/failures.ts'
import { type RunInHand, ToolFailure } from '../tools/tool.ts'
import type { RunPosting } from './run-posting.ts'
import { createUtteranceScanner, type UtteranceScanner } from './utterance-scanner.ts'

/** A run's message while it may grow. */
export interface OpenMessage {
  spaceId: string
  postKey: string
  /** Those that are whole. */
  parts: MessagePart[]
  /** Null until its first part begins. */
  message: Promise<Message> | null
}

/** Where something is said or shown. */
export interface Place {
  spaceId: string
  /** An agent member to wake by it. */
  mention: string | null
}

/** Where a run's messages go, and where each of them ends. */
export interface MessagePolicy {
  /** Whether a message grows by parts until something ends it; else each part is a message. */
  composite: boolean
  scanner(field: string): UtteranceScanner
  /** Where a text goes, as far as its call's input is written; null until that is known. */
  placeOfText(scanner: UtteranceScanner): Place | null
  /** Where a call shows, by its state; null: nowhere. @throws ToolFailure */
  placeOfCall(state: JsonObject): Place | null
  /** Where a call shows before its input is whole; null: it shows when it is. */
  placeOfBegunCall(): Place | null
  /** @returns the last message there, where the policy has to look @throws ToolFailure where the agent may not say anything there */
  check(place: Place): Promise<number | null>
  /** The message that the call's part goes to: the open one, or the next. */
  at(callId: string, spaceId: string): OpenMessage
  /** No more parts: the next one begins another message. */
  close(open: OpenMessage): void
  /** Those that are open for more parts when the run pauses or ends. */
  open(): OpenMessage[]
  /** What an earlier claim of the run has begun and this one goes on with, by the call that it shows. */
  shownBefore(): [callId: string, open: OpenMessage][]
}

/** With the ACTIVE_SPACE tools each send_message, and each visible call, is a message of the active space. */
export function eachPartAMessage(run: Pick<RunInHand, 'activeSpace'>, begun: Message[]): MessagePolicy {
  const here = (): Place | null => (run.activeSpace === null ? null : { spaceId: run.activeSpace.id, mention: null })
  const resumed = begun.filter(({ status, composite }) => status === 'STREAMING' && !composite)
  return {
    composite: false,
    scanner: (field) => createUtteranceScanner(field, { namesSpace: false }),
    placeOfText: here,
    placeOfBegunCall: here,
    placeOfCall() {
      const place = here()
      if (place === null) throw noActiveSpace()
      return place
    },
    check: async () => null,
    at: (callId, spaceId) => ({ spaceId, postKey: callId, parts: [], message: null }),
    close() {},
    open: () => [],
    shownBefore: () =>
      resumed.flatMap((message): [string, OpenMessage][] => {
        const { spaceId, parts } = message
        const [part] = parts
        if (part?.type !== 'tool' || message.runPostKey !== part.toolCallId) return []
        return [[part.toolCallId, { spaceId, postKey: part.toolCallId, parts, message: Promise.resolve(message) }]]
      }),
  }
}

const NO_AGENT_MEMBER = 'Only an agent that is a member of that space can be mentioned, by its id: see YOUR SPACES.'

/** For a mention of who is no agent there, or none any more. */
export const noAgentMember = (): ToolFailure => new ToolFailure('BAD_INPUT', NO_AGENT_MEMBER)

/**
 * With the SPACE_TOOLS one message per space, whose parts are what the run says and shows there, in order. A mention, a wait, a
 * pause or the run's end finishes it; the next part begins another.
 */
export function composites(
  run: Pick<RunInHand, 'agent'>,
  begun: Message[],
  posting: Pick<RunPosting, 'mayWrite'>,
): MessagePolicy {
  const counts = new Map<string, number>()
  const open = new Map<string, OpenMessage>()
  for (const message of begun.filter(({ composite }) => composite)) {
    const { spaceId, status } = message
    const parts = message.parts.filter((part) => part.type !== 'text' || part.unfinished !== true)
    const postKey = nextKey(spaceId)
    if (status === 'STREAMING') open.set(spaceId, { spaceId, postKey, parts, message: Promise.resolve(message) })
  }

  function nextKey(spaceId: string): string {
    const n = counts.get(spaceId) ?? 0
    counts.set(spaceId, n + 1)
    return `${spaceId}:${n}`
  }

  return {
    composite: true,
    scanner: (field) => createUtteranceScanner(field, { namesSpace: true }),
    placeOfText(scanner) {
      const spaceId = scanner.spaceId()
      return spaceId === null ? null : { spaceId, mention: scanner.mention() }
    },
    placeOfCall(state) {
      const { spaceId, mention } = placementOf(state)
      return spaceId === null ? null : { spaceId, mention }
    },
    placeOfBegunCall: () => null,
    async check({ spaceId, mention }) {
      if (mention === run.agent.id) throw new ToolFailure('SELF_MENTION', 'An agent cannot mention itself.')
      const may = await posting.mayWrite(spaceId, mention)
      if (may.type === 'not-a-member') throw notAMember()
      if (may.type === 'mentions-no-agent') throw noAgentMember()
      return may.lastSeq
    },
    at(_, spaceId) {
      const known = open.get(spaceId) ?? { spaceId, postKey: nextKey(spaceId), parts: [], message: null }
      open.set(spaceId, known)
      return known
    },
    close: ({ spaceId }) => void open.delete(spaceId),
    open: () => [...open.values()].filter(({ message }) => message !== null),
    shownBefore: () => [],
  }
}
