import { BadInputError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import { isUnfinished, type Message, type MessagePart } from '../rules/message.ts'
import type { ReplyPlace } from '../rules/threads.ts'
import type { ShownCall } from '../stores/call-store.ts'
import { type Placement, placementOf, placementSoFar } from '../tools/placement.ts'
import type { RunExecution } from '../tools/run-context.ts'
import { noActiveSpace, notAMember } from '../tools/space/failures.ts'
import { ToolFailure } from '../tools/tool.ts'
import {
  callPart,
  isMessageEnded,
  OUTSIDE_OF_THREADS,
  type PlaceIn,
  type RunMessages,
  type Step,
} from './run-messages.ts'

/** A message of a run that can still grow. */
export interface OpenMessage {
  spaceId: string
  /** The `replyTo` of the message's calls. */
  replyTo?: string
  postKey: string
  /** The finished parts. */
  parts: MessagePart[]
  /** The message; null until its first part begins. */
  message: Promise<Message> | null
}

/** The position for a text or call: its space, its thread, and the agent that it mentions. */
export interface Place {
  spaceId: string
  /** The `replyTo` of the call. */
  replyTo?: string
  /** The agent to wake, which is a member of the space. */
  mention: string | null
}

/** Decides to which message each part of a run belongs, and when a message ends. */
export interface MessagePolicy {
  /** Whether a message has several parts. If false, each part is a separate message. */
  composite: boolean
  /**
   * Returns the target of a text, from the input fields that precede it; null if the target is known only when the
   * input is complete.
   */
  placeOfText(before: JsonObject): Place | null
  /** Returns the target of a call, from its state; null if the call is not shown. @throws ToolFailure */
  placeOfCall(state: JsonObject): Place | null
  /**
   * Returns the space in which approval of a call is requested. This is the first of these that exists: the space that
   * shows the call, the active space, and the trigger's space. Returns null if there is none.
   */
  placeOfQuestion(state: JsonObject): Place | null
  /** Returns the target of a call whose input is streaming; null if the target is not known yet. */
  placeOfBegunCall(written: JsonObject): Place | null
  /**
   * @returns the `seq` of the space's last message, if the policy needs it
   * @throws ToolFailure if the agent may not post there
   */
  check(place: Place): Promise<number | null>
  /** Returns the message for the call's part: the open message, or a new one. */
  at(callId: string, place: Pick<Place, 'spaceId' | 'replyTo'>): OpenMessage
  /**
   * Whether an open message can move to another thread of its space, because the message has no finished part and no
   * other message is open there.
   */
  mayMove(open: OpenMessage, replyTo: string | undefined): boolean
  /** Sets the thread of an open message. The next write to the message stores the change. */
  move(open: OpenMessage, replyTo: string | undefined): void
  /** Closes a message, so that the next part begins another one. */
  close(open: OpenMessage): void
  /** Returns the open messages, which must be finished when the run pauses or ends. */
  open(): OpenMessage[]
  /**
   * Returns the messages that an earlier attempt began and this attempt continues, each with the call that it shows or
   * streams.
   */
  shownBefore(): [callId: string, open: OpenMessage][]
  /**
   * Returns the message whose text an earlier attempt has left unfinished, with the call that continues it; null if
   * there is none. Crash recovery ends such messages, unless the run relays the answer from another server.
   */
  textBefore(): { callId: string; open: OpenMessage } | null
}

/**
 * The policy of ACTIVE_SPACE. Each `send_message` call and each visible call is a separate message in the active space.
 */
export function eachPartAMessage(
  run: Pick<RunExecution, 'context'>,
  begun: Message[],
  { defaultIn }: { defaultIn: PlaceIn },
): MessagePolicy {
  const here = () => activePlace(run)
  const resumed = begun.filter(({ status, composite }) => status === 'STREAMING' && !composite)
  return {
    composite: false,
    placeOfText(before) {
      const place = here()
      return place === null ? null : { ...place, ...replyIn(before) }
    },
    placeOfBegunCall: here,
    placeOfCall() {
      const place = here()
      if (place === null) throw noActiveSpace()
      return place
    },
    placeOfQuestion: () => here() ?? placeOfTrigger(run),
    check: async () => null,
    at: (callId, { spaceId, replyTo }) => ({
      spaceId,
      ...(replyTo === undefined ? {} : { replyTo }),
      postKey: callId,
      parts: [],
      message: null,
    }),
    mayMove: () => true,
    move: setReply,
    close() {},
    open: () => [],
    shownBefore: () =>
      resumed.flatMap((message): [string, OpenMessage][] => {
        const { spaceId, parts } = message
        const [part] = parts
        if (part?.type !== 'tool' || message.runPostKey !== part.toolCallId) return []
        return [[part.toolCallId, { spaceId, postKey: part.toolCallId, parts, message: Promise.resolve(message) }]]
      }),
    textBefore() {
      const message = resumed.find(
        ({ fromPlainText, parts }) => !fromPlainText && (parts[0]?.type ?? 'text') === 'text',
      )
      if (message === undefined || message.runPostKey === null) return null
      const { spaceId, runPostKey: callId } = message
      const place = { spaceId, ...replyOf(message, defaultIn(spaceId)) }
      return { callId, open: { ...place, postKey: callId, parts: [], message: Promise.resolve(message) } }
    },
  }
}

/** With SPACE_TOOLS, returns the target in the input of a call. */
const placeOfCall = (state: JsonObject): Place | null => placeIn(placementOf(state))

function activePlace({ context }: Pick<RunExecution, 'context'>): Place | null {
  const { activeSpace } = context
  return activeSpace === null ? null : { spaceId: activeSpace.id, mention: null }
}

function placeOfTrigger({ context }: Pick<RunExecution, 'context'>): Place | null {
  const { triggerSpaceId: spaceId } = context.run
  return spaceId === null ? null : { spaceId, mention: null }
}

const NO_AGENT_MEMBER = 'Only an agent that is a member of that space can be mentioned, by its id: see YOUR SPACES.'

const PAUSED = 'That agent is paused: nothing wakes it now. Mention another agent, or none.'

/** Returns the error for a mention of an entity that is not an agent, or not a member of the space. */
export const noAgentMember = (): ToolFailure => new ToolFailure('BAD_INPUT', NO_AGENT_MEMBER)

/**
 * The policy of SPACE_TOOLS. There is one message per space and thread. Its parts are the texts, calls and files that
 * the run posts there, in order. A mention, a wait, a pause or the run's end finishes the message, and the next part
 * begins another one.
 */
export function composites(
  run: Pick<RunExecution, 'context'>,
  begun: Message[],
  { mayWrite, defaultIn }: Pick<RunMessages, 'mayWrite'> & { defaultIn: PlaceIn },
): MessagePolicy {
  const counts = new Map<string, number>()
  const open = new Map<string, OpenMessage>()
  const shown: [callId: string, open: OpenMessage][] = []
  let unfinished: OpenMessage | null = null
  for (const message of begun.filter(({ composite }) => composite)) {
    const { spaceId } = message
    const postKey = nextKey(spaceId)
    if (message.status !== 'STREAMING') continue
    const parts = message.parts.filter((part) => !isUnfinished(part))
    const goesOn = {
      spaceId,
      ...replyOf(message, defaultIn(spaceId)),
      postKey,
      parts,
      message: Promise.resolve(message),
    }
    open.set(keyOf(goesOn), goesOn)
    const last = message.parts.at(-1)
    if (last?.type === 'tool' && isUnfinished(last)) shown.push([last.toolCallId, goesOn])
    else if (last === undefined || isUnfinished(last)) unfinished = goesOn
  }

  function nextKey(spaceId: string): string {
    const n = counts.get(spaceId) ?? 0
    counts.set(spaceId, n + 1)
    return `${spaceId}:${n}`
  }

  return {
    composite: true,
    placeOfText: ({ spaceId, mention, ...before }) =>
      isId(spaceId) ? { spaceId, mention: isId(mention) ? mention : null, ...replyIn(before) } : null,
    placeOfCall,
    placeOfQuestion: (state) => placeOfCall(state) ?? activePlace(run) ?? placeOfTrigger(run),
    placeOfBegunCall: (written) => placeIn(placementSoFar(written)),
    async check({ spaceId, mention }) {
      if (mention === run.context.run.agentId) throw new ToolFailure('SELF_MENTION', 'An agent cannot mention itself.')
      const may = await mayWrite(spaceId, mention)
      if (may.type === 'not-a-member') throw notAMember()
      if (may.type === 'mentions-no-agent') throw noAgentMember()
      if (may.type === 'mentions-paused') throw new ToolFailure('AGENT_PAUSED', PAUSED)
      return may.lastSeq
    },
    at(_, { spaceId, replyTo }) {
      const place = { spaceId, ...(replyTo === undefined ? {} : { replyTo }) }
      const known = open.get(keyOf(place)) ?? { ...place, postKey: nextKey(spaceId), parts: [], message: null }
      open.set(keyOf(place), known)
      return known
    },
    mayMove: ({ spaceId, parts }, replyTo) =>
      parts.length === 0 && !open.has(keyOf({ spaceId, ...(replyTo === undefined ? {} : { replyTo }) })),
    move(moved, replyTo) {
      open.delete(keyOf(moved))
      setReply(moved, replyTo)
      open.set(keyOf(moved), moved)
    },
    close(closed) {
      if (open.get(keyOf(closed)) === closed) open.delete(keyOf(closed))
    },
    open: () => [...open.values()].filter(({ message }) => message !== null),
    shownBefore: () => shown,
    textBefore: () => unfinished && { callId: newId('tcl'), open: unfinished },
  }
}

/** Returns the map key for a space and a thread. */
const keyOf = ({ spaceId, replyTo }: Pick<Place, 'spaceId' | 'replyTo'>) =>
  replyTo === undefined ? spaceId : `${spaceId} ${replyTo}`

function setReply(open: OpenMessage, replyTo: string | undefined): void {
  if (replyTo === undefined) delete open.replyTo
  else open.replyTo = replyTo
}

/**
 * Returns the `replyTo` of a call's fields. An empty string is treated as absent, because some models generate one for
 * omitted fields.
 */
export function replyIn({ replyTo }: JsonObject): Pick<Place, 'replyTo'> {
  return isId(replyTo) ? { replyTo } : {}
}

/**
 * Returns the `replyTo` that an earlier attempt of the run must have used for a message. There is none if the message
 * is in the default thread.
 */
function replyOf({ replyToId }: Message, byDefault: ReplyPlace): Pick<Place, 'replyTo'> {
  return replyToId === byDefault.replyToId ? {} : { replyTo: replyToId ?? OUTSIDE_OF_THREADS }
}

const isId = (value: Json | undefined): value is string => typeof value === 'string' && value !== ''

function placeIn(placement: Placement | null): Place | null {
  if (placement === null || placement.spaceId === null) return null
  return { spaceId: placement.spaceId, mention: placement.mention }
}

/** Begins and extends a run's open messages according to the message policy. */
export interface MessageGrowth {
  /**
   * Begins a message without parts, or with a call that it shows. If the message was already begun, returns it.
   * @throws ToolFailure
   */
  begin(open: OpenMessage, call?: ShownCall): Promise<Message>
  /** Shows a call whose input is streaming as the next part. Begins the message if necessary. @throws ToolFailure */
  beginPart(open: OpenMessage, call: ShownCall): Promise<Message>
  /**
   * Applies a step to the message, and closes the message if this step or somebody else has ended it. @throws
   * ToolFailure
   */
  grow(open: OpenMessage, message: Message, parts: MessagePart[], step: Step): Promise<void>
}

export function createMessageGrowth(posting: RunMessages, policy: MessagePolicy): MessageGrowth {
  /** Posts a message, or returns the one that was posted with the same key. */
  async function post({ spaceId, postKey, replyTo }: OpenMessage, call?: ShownCall): Promise<Message> {
    const { composite } = policy
    const replying = replyTo === undefined ? {} : { replyTo }
    const message = await posting.begin({ spaceId, postKey, composite, ...replying, ...(call ? { shown: call } : {}) })
    if (message === null) throw notAMember()
    return message
  }

  function begin(open: OpenMessage, call?: ShownCall): Promise<Message> {
    if (open.message !== null) return open.message
    const message = post(open, call)
    open.message = message
    message.catch(() => {
      open.message = null
    })
    return message
  }

  async function write(open: OpenMessage, message: Message, parts: MessagePart[], step: Step): Promise<void> {
    try {
      await posting.grow(message, parts, step)
    } catch (error) {
      if (isMessageEnded(error)) policy.close(open)
      // The mentioned agent may have left between the check and this write, which routes the message.
      throw error instanceof BadInputError ? noAgentMember() : error
    }
  }

  return {
    begin,
    async beginPart(open, call) {
      if (open.message === null) return begin(open, call)
      const message = await open.message
      const part = callPart(call.toolCallId, { isUnfinished: true })
      await write(open, message, [...open.parts, part], { adds: { type: 'call', shown: call } })
      return message
    },
    async grow(open, message, parts, step) {
      await write(open, message, parts, step)
      open.parts = parts
      if (step.ends !== undefined) policy.close(open)
    },
  }
}
