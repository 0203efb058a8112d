import { createVisibility } from '../access/visibility.ts'
import { createInbox } from '../agents/inbox.ts'
import { createInboxRetrying } from '../agents/inbox-retrying.ts'
import { createRecalling } from '../agents/recall.ts'
import { createDiscretion } from '../confidentiality/discretion.ts'
import { createSharedStorage } from '../files/shared-storage.ts'
import { createDecideCall } from '../flows/decide-call.ts'
import { createDelegationChecks } from '../flows/delegation-checks.ts'
import { createMessageDeletions } from '../flows/delete-message.ts'
import { createDerivedTexts } from '../flows/derived-texts.ts'
import { createMessageEdits } from '../flows/edit-message.ts'
import { createPlanFiring } from '../flows/fire-plan.ts'
import { createLeaving } from '../flows/leave-space.ts'
import { createLifecycle } from '../flows/lifecycle.ts'
import { createMessageReach } from '../flows/message-access.ts'
import { createPost } from '../flows/post.ts'
import { createReacting } from '../flows/react.ts'
import { createMessageRecovery } from '../flows/recover-messages.ts'
import { createResumableUploads } from '../flows/resumable-uploads.ts'
import { createSettleCall } from '../flows/settle-call.ts'
import { createReplyWaits } from '../flows/settle-wait.ts'
import { createStandingGrants } from '../flows/standing-grants.ts'
import { createUploads } from '../flows/upload-file.ts'
import type { Platform } from '../platform/platform.ts'
import { createApprovalReading } from '../runs/approval-reading.ts'
import { createGrantReading } from '../runs/grant-reading.ts'
import { createJournal } from '../runs/journal.ts'
import { createRunProgress } from '../runs/run-progress.ts'
import { createRuns } from '../runs/runs.ts'
import { createToolCalls } from '../runs/tool-call-reading.ts'
import { createUsageReading } from '../runs/usage.ts'
import { createAnnouncer } from '../spaces/announcer.ts'
import { createHistory } from '../spaces/history.ts'
import type { Meaning } from '../spaces/meaning.ts'
import { createReplies } from '../spaces/replies.ts'
import { createSearch } from '../spaces/search.ts'
import { createSpacePublisher } from '../spaces/space-publisher.ts'

/**
 * Connects the parts that depend on each other in a circle: messages, plans and services start runs, and runs post
 * messages.
 */
export function createCore(platform: Platform, { meaning = null }: { meaning?: Meaning | null } = {}) {
  const runs = createRuns(platform)
  const runProgress = createRunProgress(platform)
  const inbox = createInbox(platform)
  const said = createSaid(platform)
  const recovery = createMessageRecovery(platform, said.announcer)
  const lifecycle = createLifecycle(platform, { recovery })
  const calls = createCalls(platform, said.posting)
  const publisher = createSpacePublisher(platform)
  const leaving = createLeaving(platform, { ...calls, publisher, lifecycle })
  const planFiring = createPlanFiring(platform)
  const history = createHistory(platform)
  const search = createSearch(platform, { meaning })
  const delegationChecks = createDelegationChecks(platform, said)
  const journal = createJournal(platform)
  const usage = createUsageReading(platform)
  const recalling = createRecalling(platform)
  const sharedStorage = createSharedStorage(platform)
  const uploads = createUploads(platform, { sharedStorage })
  return {
    ...said,
    sharedStorage,
    uploads,
    resumableUploads: createResumableUploads(platform, { uploads, sharedStorage }),
    ...createChanges(platform, said),
    replyWaits: createReplyWaits(platform, { posting: said.posting, lifecycle }),
    runs,
    runProgress,
    inbox,
    inboxRetrying: createInboxRetrying(platform),
    journal,
    usage,
    recalling,
    recovery,
    lifecycle,
    publisher,
    leaving,
    ...calls,
    planFiring,
    history,
    search,
    delegationChecks,
  }
}

/** Builds the flows that decide on tool calls and settle them outside their run. */
function createCalls(platform: Platform, posting: Said['posting']) {
  const visibility = createVisibility(platform)
  const toolCalls = createToolCalls(platform)
  const settleCall = createSettleCall(platform, { visibility, toolCalls, posting })
  const decideCall = createDecideCall(platform, { visibility, toolCalls, settleCall })
  const grantReading = createGrantReading(platform)
  const grants = createStandingGrants(platform, { decideCall, grantReading })
  const approvalReading = createApprovalReading(platform)
  return { visibility, toolCalls, settleCall, decideCall, approvalReading, grantReading, grants }
}

/** Builds the modules that change posted messages. */
function createChanges(platform: Platform, { discretion }: Pick<Said, 'discretion'>) {
  const derivedTexts = createDerivedTexts(platform)
  return {
    derivedTexts,
    messageReach: createMessageReach(platform, { discretion }),
    messageEdits: createMessageEdits(platform),
    messageDeletions: createMessageDeletions(platform, { derivedTexts }),
    reacting: createReacting(platform),
  }
}

type Said = ReturnType<typeof createSaid>

/** Builds the modules for messages of people and runs, and for replies. */
function createSaid(platform: Platform) {
  const announcer = createAnnouncer(platform)
  const posting = createPost(platform)
  const discretion = createDiscretion(platform.db)
  const speech = { announcer, discretion, post: posting.post }
  return {
    announcer,
    posting,
    discretion,
    speech,
    replies: createReplies(platform),
  }
}

export type Core = ReturnType<typeof createCore>
