import type { Json, JsonObject } from '../lib/json.ts'
import { isUnfinished, type Message, type MessagePart } from '../spaces/message.ts'
import { type Placement, placementOf, placementSoFar } from '../tools/placement.ts'
import { noActiveSpace, notAMember } from '../tools/space/failures.ts'
import { type RunInHand, ToolFailure } from '../tools/tool.ts'
import type { RunPosting } from './run-posting.ts'

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
  /** Where a text goes, by what of its call's input is written before it; null: that is known when it is whole. */
  placeOfText(before: JsonObject): Place | null
  /** Where a call shows, by its state; null: nowhere. @throws ToolFailure */
  placeOfCall(state: JsonObject): Place | null
  /** Where people are asked to decide on a call: where it shows, else in the active space, else in the trigger's; null: nowhere. */
  placeOfQuestion(state: JsonObject): Place | null
  /** Where a call shows whose input is being written, by what is written of it; null: that is not known yet. */
  placeOfBegunCall(written: JsonObject): Place | null
  /** @returns the last message there, where the policy has to look @throws ToolFailure where the agent may not say anything there */
  check(place: Place): Promise<number | null>
  /** The message that the call's part goes to: the open one, or the next. */
  at(callId: string, spaceId: string): OpenMessage
  /** No more parts: the next one begins another message. */
  close(open: OpenMessage): void
  /** Those that are open for more parts when the run pauses or ends. */
  open(): OpenMessage[]
  /** What an earlier claim of the run has begun and this one goes on with, by the call that it shows, or shows unfinished. */
  shownBefore(): [callId: string, open: OpenMessage][]
}

/** With the ACTIVE_SPACE tools each send_message, and each visible call, is a message of the active space. */
export function eachPartAMessage(run: Pick<RunInHand, 'activeSpace' | 'claim'>, begun: Message[]): MessagePolicy {
  const here = () => activePlace(run)
  const resumed = begun.filter(({ status, composite }) => status === 'STREAMING' && !composite)
  return {
    composite: false,
    placeOfText: here,
    placeOfBegunCall: here,
    placeOfCall() {
      const place = here()
      if (place === null) throw noActiveSpace()
      return place
    },
    placeOfQuestion: () => here() ?? placeOfTrigger(run),
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

/** Where the model asked that a call be shown, where its calls name their space. */
const placeOfCall = (state: JsonObject): Place | null => placeIn(placementOf(state))

function activePlace({ activeSpace }: Pick<RunInHand, 'activeSpace'>): Place | null {
  return activeSpace === null ? null : { spaceId: activeSpace.id, mention: null }
}

function placeOfTrigger({ claim }: Pick<RunInHand, 'claim'>): Place | null {
  const { triggerSpaceId: spaceId } = claim.run
  return spaceId === null ? null : { spaceId, mention: null }
}

const NO_AGENT_MEMBER = 'Only an agent that is a member of that space can be mentioned, by its id: see YOUR SPACES.'

const PAUSED = 'That agent is paused: nothing wakes it now. Mention another one, or none.'

/** For a mention of who is no agent there, or none any more. */
export const noAgentMember = (): ToolFailure => new ToolFailure('BAD_INPUT', NO_AGENT_MEMBER)

/**
 * With the SPACE_TOOLS one message per space, whose parts are what the run says and shows there, in order. A mention, a wait, a
 * pause or the run's end finishes it; the next part begins another.
 */
export function composites(
  run: Pick<RunInHand, 'agent' | 'activeSpace' | 'claim'>,
  begun: Message[],
  posting: Pick<RunPosting, 'mayWrite'>,
): MessagePolicy {
  const counts = new Map<string, number>()
  const open = new Map<string, OpenMessage>()
  const shown: [callId: string, open: OpenMessage][] = []
  for (const message of begun.filter(({ composite }) => composite)) {
    const { spaceId } = message
    const postKey = nextKey(spaceId)
    if (message.status !== 'STREAMING') continue
    const parts = message.parts.filter((part) => !isUnfinished(part))
    const goesOn = { spaceId, postKey, parts, message: Promise.resolve(message) }
    open.set(spaceId, goesOn)
    const last = message.parts.at(-1)
    if (last?.type === 'tool' && isUnfinished(last)) shown.push([last.toolCallId, goesOn])
  }

  function nextKey(spaceId: string): string {
    const n = counts.get(spaceId) ?? 0
    counts.set(spaceId, n + 1)
    return `${spaceId}:${n}`
  }

  return {
    composite: true,
    placeOfText: ({ spaceId, mention }) =>
      isId(spaceId) ? { spaceId, mention: isId(mention) ? mention : null } : null,
    placeOfCall,
    placeOfQuestion: (state) => placeOfCall(state) ?? activePlace(run) ?? placeOfTrigger(run),
    placeOfBegunCall: (written) => placeIn(placementSoFar(written)),
    async check({ spaceId, mention }) {
      if (mention === run.agent.id) throw new ToolFailure('SELF_MENTION', 'An agent cannot mention itself.')
      const may = await posting.mayWrite(spaceId, mention)
      if (may.type === 'not-a-member') throw notAMember()
      if (may.type === 'mentions-no-agent') throw noAgentMember()
      if (may.type === 'mentions-paused') throw new ToolFailure('AGENT_PAUSED', PAUSED)
      return may.lastSeq
    },
    at(_, spaceId) {
      const known = open.get(spaceId) ?? { spaceId, postKey: nextKey(spaceId), parts: [], message: null }
      open.set(spaceId, known)
      return known
    },
    close: ({ spaceId }) => void open.delete(spaceId),
    open: () => [...open.values()].filter(({ message }) => message !== null),
    shownBefore: () => shown,
  }
}

const isId = (value: Json | undefined): value is string => typeof value === 'string' && value !== ''

function placeIn(placement: Placement | null): Place | null {
  if (placement === null || placement.spaceId === null) return null
  return { spaceId: placement.spaceId, mention: placement.mention }
}
