import type { NewInboxEvent } from '../agents/inbox.ts'
import { marksOf, type Provenance, together } from '../confidence/marks.ts'
import type { EntityKind } from '../generated/prisma/client.ts'
import { cut, type Json, oneLine } from '../lib/json.ts'
import { mentionPayload } from '../runs/mention-trigger.ts'
import type { NewRun } from '../runs/runs.ts'

/** What happened in a space to wake an agent: a message, or an agent's turn in a chain that ended without one. */
export interface MessageTrigger {
  space: { id: string; name: string }
  /** The last message of the space that the agent sees when it wakes. */
  seq: number
  /** Null if no message was posted. */
  messageId: string | null
  /** The text of the message; if it only shows tools, what those show. */
  text: string
  /** All that agents read of the message, including the tools that it shows. */
  content: string
  sender: { id: string; name: string; kind: EntityKind }
  /** The mentioned agent or human. */
  mentioned: { id: string; name: string } | null
  /** The provenance of the message, apart from its space. `label` may contain spaces that are not confidential. */
  provenance: Provenance
}

/** The position of a wake-up in the tree of its root. */
export interface Lineage {
  rootId: string
  depth: number
  parentRunId: string | null
  chainId?: string | null
  wokenBy?: Json
  /** The run that passes the turn, with its reason. */
  by?: Provenance
}

/** The provenance of a new message is in its row; that of a human's message is its sender. */
export function provenanceOfMessage(
  { spaceId, senderId, ...marks }: Provenance & { spaceId: string; senderId: string },
  senderKind: EntityKind,
): Provenance {
  const askers = senderKind === 'HUMAN' ? [senderId] : marks.askers
  return { places: [spaceId], label: marksOf(marks), askers }
}

/** The provenance of a woken run: that of its trigger and of the run that passed it on. */
function handedProvenance(trigger: Provenance, by: Provenance | undefined): Provenance {
  if (by === undefined) return trigger
  return together([trigger, { places: [], label: marksOf(by), askers: by.askers }])
}

/** Summarizes the trigger in one line: sender, space and topic. */
function aboutMessage({ sender, space, text }: MessageTrigger): string {
  const subject = cut(oneLine(text), 120)
  return `${oneLine(sender.name)} in "${oneLine(space.name)}"${subject === '' ? '' : `: "${subject}"`}`
}

/** The run that wakes a stateless agent. */
export function runOf(
  agent: { id: string },
  trigger: MessageTrigger,
  { dedupKey, by, ...lineage }: Lineage & { dedupKey: string },
): NewRun {
  return {
    ...handedProvenance(trigger.provenance, by),
    agent,
    dedupKey,
    triggerType: 'SPACE_MESSAGE',
    triggerSpaceId: trigger.space.id,
    triggerMessageId: trigger.messageId,
    triggerSenderId: trigger.sender.id,
    triggerSummary: aboutMessage(trigger),
    triggerPayload: mentionPayload({ ...trigger, senderKind: trigger.sender.kind }, agent.id),
    activeSpaceId: trigger.space.id,
    enteredSeq: trigger.seq,
    ...lineage,
  }
}

/** The inbox event that wakes a persistent agent. */
export function inboxEventOf(
  agent: { id: string },
  trigger: MessageTrigger,
  { dedupKey, by, ...lineage }: Lineage & { dedupKey: string },
): NewInboxEvent {
  const { space, sender, messageId, content } = trigger
  const mention = mentionPayload({ ...trigger, senderKind: sender.kind }, agent.id)
  return {
    ...handedProvenance(trigger.provenance, by),
    agentId: agent.id,
    type: 'SPACE_MESSAGE',
    dedupKey,
    spaceId: space.id,
    messageId,
    senderId: sender.id,
    payload: {
      spaceId: space.id,
      spaceName: space.name,
      senderId: sender.id,
      senderName: sender.name,
      senderKind: sender.kind,
      content,
      ...(mention === null ? {} : { mention }),
    },
    ...lineage,
  }
}
