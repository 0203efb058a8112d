import type { NewInboxEvent } from '../agents/inbox.ts'
import { marksOf, type Provenance, together } from '../confidence/marks.ts'
import type { EntityKind } from '../generated/prisma/client.ts'
import { cut, type Json, oneLine } from '../lib/json.ts'
import { mentionPayload } from '../runs/mention-trigger.ts'
import type { NewRun } from '../runs/runs.ts'

/** What happened in a space that wakes an agent: a message, or an agent of a chain that ended without one. */
export interface MessageTrigger {
  space: { id: string; name: string }
  /** The space's last message that the agent sees when it wakes. */
  seq: number
  /** Null where nothing was said. */
  messageId: string | null
  /** What was said; where the message only shows tools, what they show. */
  text: string
  /** All that agents read of the message, the tools that it shows included. */
  content: string
  sender: { id: string; name: string; kind: EntityKind }
  /** Whom the message mentions. */
  mentioned: { id: string; name: string } | null
  /** Where it comes from, beside its space: `label` may hold more spaces than are confidential. */
  provenance: Provenance
}

/** Where a wake-up stands among what set it off. */
export interface Lineage {
  rootId: string
  depth: number
  parentRunId: string | null
  chainId?: string | null
  wokenBy?: Json
  /** The run that hands this on, and says why. */
  by?: Provenance
}

/** A message as it is written says in its row where it comes from; a human's is its sender's own. */
export function provenanceOfMessage(
  { spaceId, senderId, ...marks }: Provenance & { spaceId: string; senderId: string },
  senderKind: EntityKind,
): Provenance {
  const askers = senderKind === 'HUMAN' ? [senderId] : marks.askers
  return { places: [spaceId], label: marksOf(marks), askers }
}

/** What whoever is woken takes from what it is woken by, and from the run that hands it on. */
function handedProvenance(trigger: Provenance, by: Provenance | undefined): Provenance {
  if (by === undefined) return trigger
  return together([trigger, { places: [], label: marksOf(by), askers: by.askers }])
}

/** Who, where, and about what, in one line. */
function aboutMessage({ sender, space, text }: MessageTrigger): string {
  const subject = cut(oneLine(text), 120)
  return `${oneLine(sender.name)} in "${oneLine(space.name)}"${subject === '' ? '' : `: "${subject}"`}`
}

/** The run that a stateless agent is woken by. */
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

/** The inbox event that a persistent agent is woken by. */
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
