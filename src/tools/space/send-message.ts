import type { WaitState } from '../../flows/reply-waits.ts'
import type { ReplyWaits } from '../../flows/settle-wait.ts'
import { prefixOf } from '../../lib/ids.ts'
import type { JsonObject } from '../../lib/json.ts'
import { checkOurs, withoutOurNulls } from '../../lib/schema-checks.ts'
import type { Reply, WaitCondition } from '../../spaces/reply-search.ts'
import { defineTool, type ToolBody, type ToolParts } from '../define-tool.ts'
import {
  type CompositeSpeech,
  type Speech,
  ToolFailure,
  type ToolReturn,
  type ToolUse,
  type Utterance,
} from '../tool.ts'

const DEFAULT_TIMEOUT_SECONDS = 60
const LONGEST_TIMEOUT_SECONDS = 120

interface SendParts extends Pick<ToolParts, 'replies' | 'replyWaits' | 'inbox'> {
  speech: CompositeSpeech
  /** Whether the space has MENTION_CHAIN routing, where agents take turns. */
  isChain(spaceId: string): boolean
}

/**
 * Posts in the active space, or in the space that the call names. Members see the text while the model writes it.
 * In a named space, the call can wake an agent and can wait for a reply.
 */
export const sendMessage = defineTool({
  names: { snake: 'send_message', camel: 'sendSpaceMessage' },
  create: ({ place, speech, scene, parts }) => {
    if (place === 'active') return inActiveSpace(speech)
    if (speech.composite === null) throw new Error('a SPACE_TOOLS run has no composite speech')
    const isChain = (spaceId: string) =>
      scene.spaces.some(({ id, routing }) => id === spaceId && routing === 'MENTION_CHAIN')
    return inNamedSpace({ ...parts, speech: speech.composite, isChain })
  },
})

function inActiveSpace(speech: Speech): ToolBody {
  return {
    description: 'Post a message in your active space. This is the only way to post: nobody sees your other text.',
    inputSchema: {
      type: 'object',
      properties: { replyTo: REPLY_TO, text: { type: 'string', description: 'The text of the message.' } },
      required: ['text'],
    },
    presence: { type: 'speech', field: 'text' },
    async execute({ text, replyTo }, use) {
      const message = await speech.post(use, String(text), replyTo ? String(replyTo) : null)
      return { output: { success: true, messageId: message.id } }
    },
  }
}

function inNamedSpace(parts: SendParts): ToolBody {
  return {
    description:
      'Post a message in a space that you belong to: the only way to post in any space, including the one that woke you. With mention you wake an agent there, once your message is posted. With wait you continue only after somebody has answered. Use either, both or none.',
    inputSchema: INPUT_SCHEMA,
    presence: { type: 'speech', field: 'text', refuse: (before) => refuseBefore(parts, before) },
    async execute({ spaceId, replyTo, text, mention, wait }, use) {
      // Some models write empty strings for omitted fields.
      const replying = replyTo ? { replyTo: String(replyTo) } : {}
      const said = { text: String(text), mention: mention ? String(mention) : null }
      const utterance = { spaceId: String(spaceId), ...replying, ...said }
      if (wait !== undefined) return sayAndWait(parts, use, utterance, wait as JsonObject)
      const message = await parts.speech.say(use, {
        ...utterance,
        finishes: false,
        journals: ({ id }) => ({ type: 'result', output: sent(id) }),
      })
      return { output: sent(message.id) }
    },
  }
}

/**
 * Checks the fields that precede the text in the model's output. The order of these fields does not matter. @throws
 * ToolFailure
 */
async function refuseBefore(parts: SendParts, before: JsonObject): Promise<void> {
  const schema = { ...INPUT_SCHEMA, required: [] }
  const fields = withoutOurNulls(schema, before) as JsonObject
  const fault = checkOurs(schema, fields)
  if (fault !== null) throw new ToolFailure('BAD_INPUT', fault)
  if (fields['wait'] === undefined) return
  const { isInVain } = asked(parts, String(fields['spaceId']), fields['wait'] as JsonObject)
  if (isInVain) throw new ToolFailure('NOBODY_CAN_ANSWER', NOBODY_CAN_ANSWER)
}

/**
 * Returns the conditions under which a wait ends, whether people can meet them, and whether there is nobody who can
 * reply.
 * @throws ToolFailure
 */
function asked({ isChain }: SendParts, spaceId: string, wait: JsonObject) {
  const conditions = conditionsOf(wait['for'] as JsonObject[])
  const people = conditions.some(mayBeMetByPeople)
  return { conditions, people, isInVain: !people && isChain(spaceId) }
}

const NOBODY_CAN_ANSWER =
  'In that space agents act one at a time: none can answer while you wait. End your turn with mentionAgent and expectReply instead.'

const sent = (messageId: string) => ({ messageId, sent: true })

/**
 * Posts a text and waits for a reply. Subscribes before posting, so that no reply is missed. A resumed run waits
 * only for the remaining time.
 */
async function sayAndWait(
  parts: SendParts,
  use: ToolUse,
  utterance: Omit<Utterance, 'journals' | 'finishes'>,
  wait: JsonObject,
): Promise<ToolReturn> {
  const { speech, replies, replyWaits, inbox } = parts
  const { state, callId, signal, standAside } = use
  const { run } = use.context
  const { conditions, people, isInVain } = asked(parts, utterance.spaceId, wait)
  if (state['wait'] === undefined && isInVain) throw new ToolFailure('NOBODY_CAN_ANSWER', NOBODY_CAN_ANSWER)
  const listening = await replies.listen(utterance.spaceId)
  try {
    let pending = state.wait as WaitState['wait'] | undefined
    const waitMs = timeoutMs(wait)
    const forMs = pending === undefined ? waitMs : await replyWaits.leftMs(callId)
    if (pending === undefined) {
      const underWay = Object.fromEntries(await listening.underWay(run.agentId))
      await speech.say(use, {
        ...utterance,
        finishes: true,
        journals({ id, threadRootId }, afterSeq) {
          const inThread = threadRootId === null ? {} : { threadRootId }
          pending = { messageId: id, ...inThread, afterSeq, underWay, asksPeople: people }
          return { type: 'asks', state: { ...state, wait: pending }, waitMs, people }
        },
      })
    }
    const { messageId, threadRootId = null, afterSeq, ...since } = pending as WaitState['wait']
    const underWay = new Map(Object.entries(since.underWay))
    const asking = { messageId, threadRootId }
    const waiting = listening.reply({ asking, afterSeq, underWay, forMs, conditions, waiterId: run.agentId, signal })
    const found = await standAside(waiting)
    signal.throwIfAborted()
    const call = { callId, runId: run.id, agentId: run.agentId, messageId, spaceId: utterance.spaceId }
    let settled: Awaited<ReturnType<ReplyWaits['settle']>> | undefined
    const returned = await use.inTransaction(async (tx, changed) => {
      changed([utterance.spaceId])
      settled = await replyWaits.settle(tx, call, found)
      const { reply, label } = settled
      if (reply?.mentionsWaiter === false && run.triggerType === 'INBOX') await inbox.answered(tx, run, reply.messageId)
      const output = answered(messageId, reply)
      return reply === null ? { output } : { output, learned: { places: [utterance.spaceId], label } }
    })
    await settled?.afterCommit()
    return returned
  } finally {
    listening.end()
  }
}

function mayBeMetByPeople(condition: WaitCondition): boolean {
  return condition.type === 'entity' ? prefixOf(condition.entityId) === 'hum' : condition.type !== 'agent'
}

function answered(messageId: string, reply: Reply | null): JsonObject {
  if (reply === null) return { ...sent(messageId), timedOut: true, reply: null }
  const { text, entityId, entityName, entityType } = reply
  return { ...sent(messageId), timedOut: false, reply: { text, entityId, entityName, entityType } }
}

function timeoutMs({ timeout = DEFAULT_TIMEOUT_SECONDS }: JsonObject): number {
  return Math.max(0, Math.min(Number(timeout), LONGEST_TIMEOUT_SECONDS)) * 1000
}

/** Returns the conditions under which a wait ends. @throws ToolFailure for an incomplete condition */
function conditionsOf(given: JsonObject[]): WaitCondition[] {
  return given.map(({ type, entityId }): WaitCondition => {
    if (type !== 'entity') return { type: type as 'any' | 'agent' | 'human' }
    if (typeof entityId === 'string' && entityId !== '') return { type, entityId }
    throw new ToolFailure(
      'BAD_INPUT',
      'A wait of type entity needs entityId, the id of the member whose message you wait for.',
    )
  })
}

const REPLY_TO = {
  type: 'string',
  description:
    'Id of the message to reply to, `msg_…`: your message joins its thread, or starts one. Write this field before the text. If omitted, your message goes to the place where you were addressed; "none" posts it in the space, outside of threads.',
}

const INPUT_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    spaceId: { type: 'string', description: 'Id of the space to post in, one of YOUR SPACES.' },
    replyTo: REPLY_TO,
    text: { type: 'string', description: 'The text of the message.' },
    mention: {
      type: 'string',
      description:
        'Id of an agent of that space to wake with this message. If omitted, your message wakes only the agents that the space wakes anyway.',
    },
    wait: {
      type: 'object',
      description:
        'Wait for an answer before you continue: the first message that meets any of the conditions is returned. If omitted, you continue at once.',
      properties: {
        for: {
          type: 'array',
          description: 'The senders whose message ends the wait. One matching condition is enough.',
          items: {
            type: 'object',
            properties: {
              type: {
                type: 'string',
                enum: ['any', 'agent', 'human', 'entity'],
                description:
                  'any: the first member who answers; agent: any agent; human: any human; entity: only the member with the id entityId.',
              },
              entityId: { type: 'string', description: 'With type entity: whose message to wait for.' },
            },
            required: ['type'],
          },
          minItems: 1,
        },
        timeout: {
          type: 'number',
          description: `The maximum wait, in seconds. Default ${DEFAULT_TIMEOUT_SECONDS}, at most ${LONGEST_TIMEOUT_SECONDS}.`,
          default: DEFAULT_TIMEOUT_SECONDS,
        },
      },
      required: ['for'],
    },
  },
  required: ['spaceId', 'text'],
}
