import type { ChangingRun, ReachedMessage } from '../../flows/message-access.ts'
import type { Tx } from '../../platform/db.ts'
import { defineTool, type ToolParts } from '../define-tool.ts'
import { refusable } from '../knowledge/refusals.ts'
import { ToolFailure, type ToolReturn, type ToolUse } from '../tool.ts'
import { orConfidential } from './failures.ts'

const MESSAGE_ID = { type: 'string', description: 'Id of the message, `msg_…`.' }

/** Changes the text of one of the agent's messages. */
export const editMessage = defineTool({
  names: { snake: 'edit_message', camel: 'editMessage' },
  yieldsToOwn: true,
  create: ({ parts }) => ({
    description:
      'Change the text of a message that you have sent, to correct it. People see that the message was edited, and can read the earlier text. Editing does not wake any agent: to post something new, send a message.',
    inputSchema: {
      type: 'object',
      properties: { messageId: MESSAGE_ID, text: { type: 'string', description: 'The complete new text.' } },
      required: ['messageId', 'text'],
    },
    execute: ({ messageId, text }, use) =>
      change(parts, use, { messageId: String(messageId), flows: true }, (tx, run, message) =>
        parts.messageEdits.editOwn(tx, run, { message, text: String(text) }),
      ),
  }),
})

/** Deletes one of the agent's messages. */
export const deleteMessage = defineTool({
  names: { snake: 'delete_message', camel: 'deleteMessage' },
  yieldsToOwn: true,
  create: ({ parts }) => ({
    description:
      'Delete a message that you have sent. Nobody can see its text afterwards, and the deletion cannot be undone.',
    inputSchema: { type: 'object', properties: { messageId: MESSAGE_ID }, required: ['messageId'] },
    execute: ({ messageId }, use) =>
      change(parts, use, { messageId: String(messageId), flows: false }, (tx, run, message) =>
        parts.messageDeletions.deleteOwn(tx, run, message),
      ),
  }),
})

/** Adds an emoji reaction to a message. */
export const react = defineTool({
  names: { snake: 'react', camel: 'react' },
  yieldsToOwn: true,
  create: ({ parts }) => ({
    description:
      'Put an emoji on a message of one of your spaces, to acknowledge it without words. A reaction does not wake any agent and does not count as an answer.',
    inputSchema: {
      type: 'object',
      properties: { messageId: MESSAGE_ID, emoji: { type: 'string', description: 'Exactly one emoji.' } },
      required: ['messageId', 'emoji'],
    },
    execute: ({ messageId, emoji }, use) =>
      change(parts, use, { messageId: String(messageId), flows: true }, (tx, run, message) =>
        parts.reacting.reactAs(tx, run, { message, emoji: String(emoji) }),
      ),
  }),
})

type Change = (tx: Tx, run: ChangingRun, message: ReachedMessage) => Promise<{ afterCommit(): Promise<void> }>

/** Changes a message in the transaction that journals the call, and publishes the change after the commit. */
async function change(
  { messageReach }: Pick<ToolParts, 'messageReach'>,
  { context: { run }, inTransaction }: ToolUse,
  { messageId, flows }: { messageId: string; flows: boolean },
  work: Change,
): Promise<ToolReturn> {
  const reach = await messageReach.of(run, messageId, { flows })
  if (reach.type === 'unknown')
    throw new ToolFailure(
      'NOT_FOUND',
      'There is no such message in your spaces: use the id of a message that you have read.',
    )
  if (reach.type === 'refused') orConfidential(reach.refusal)
  if (reach.type !== 'reached') throw new Error(`no message ${messageId} was reached`)
  let publish = async () => {}
  const returned = await inTransaction(async (tx, changed) => {
    const { afterCommit } = await refusable(() => work(tx, run, reach.message))
    publish = afterCommit
    changed([messageId])
    return { output: { success: true, messageId } }
  })
  await publish()
  return returned
}
