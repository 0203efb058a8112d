import { createInbox, type Inbox } from '../agents/inbox.ts'
import { createInboxRetrying } from '../agents/inbox-retrying.ts'
import { createRecalling } from '../agents/recall.ts'
import { createWaking } from '../agents/waking.ts'
import { createDiscretion } from '../confidence/discretion.ts'
import { createAsyncResults } from '../minds/async-results.ts'
import { createCycleEnd } from '../minds/cycle-end.ts'
import { estimateTokens } from '../minds/token-usage.ts'
import { createPlanFiring } from '../plans/firing.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { createDispatch } from '../routing/dispatch.ts'
import { createHandingOn } from '../routing/handing-on.ts'
import { createLeaving } from '../routing/leaving.ts'
import { createLosingTurns } from '../routing/lost-turns.ts'
import { collectOutcomeChanges } from '../routing/outcome-changes.ts'
import { createReplyWaits } from '../routing/reply-waits.ts'
import { createRunEnd } from '../routing/run-end.ts'
import { createApprovals } from '../runs/approvals.ts'
import { createCallClaims } from '../runs/call-claims.ts'
import { createCallSettling } from '../runs/call-settling.ts'
import { createApprovalReading } from '../runs/deciders.ts'
import { createJournal } from '../runs/journal.ts'
import { createLifecycle } from '../runs/lifecycle.ts'
import { shownCalls } from '../runs/readable-calls.ts'
import { countingEnds } from '../runs/run-metrics.ts'
import { createRunProgress } from '../runs/run-progress.ts'
import { createRuns, type Runs } from '../runs/runs.ts'
import { createToolAnswers } from '../runs/tool-answers.ts'
import { createToolCalls } from '../runs/tool-call-reading.ts'
import { createUsageReading } from '../runs/usage.ts'
import { createAnnouncer } from '../spaces/announcer.ts'
import { createHistory } from '../spaces/history.ts'
import { createPosting } from '../spaces/posting.ts'
import { createReplies } from '../spaces/replies.ts'
import { createAftermath } from '../speech/aftermath.ts'
import { checkInput, checkJson } from '../tools/custom/schema-checks.ts'

/** Connects the one cycle of the system: messages, plans and services start runs; runs post messages and end. */
export function createCore(platform: Platform) {
  const runs = createRuns(platform)
  const runProgress = createRunProgress(platform)
  const inbox = createInbox(platform)
  const said = createSaid(platform, { runs, inbox })
  const runEnd = createRunEnd(platform, { runs, inbox })
  const outcomes = (tx: Tx) => collectOutcomeChanges(tx, platform.log)
  const lifecycle = createLifecycle(
    platform,
    countingEnds(platform, createAftermath(platform, said.announcer)),
    createCycleEnd(platform, { ...runEnd, outcomes }),
  )
  const answering = createAnswering(platform, { inbox, posting: said.posting })
  const loseTurns = createLosingTurns(platform, runEnd)
  const leaving = createLeaving(platform, { loseTurns, lifecycle, approvals: answering.approvals })
  const waking = createWaking({ inbox, startRuns: runs.start })
  const planFiring = createPlanFiring(platform, {
    wake: (tx, { agent, ...plan }) => waking.wake(tx, agent, { type: 'PLAN', ...plan }),
  })
  const history = createHistory(platform, { shownCalls })
  const handingOn = createHandingOn(platform, said)
  const journal = createJournal(platform)
  const usage = createUsageReading(platform)
  const recalling = createRecalling(platform, { estimateTokens })
  return {
    ...said,
    replyWaits: createReplyWaits(platform, { ...said.posting, stop: lifecycle.stop }),
    runs,
    runProgress,
    inbox,
    inboxRetrying: createInboxRetrying(platform),
    journal,
    usage,
    recalling,
    lifecycle,
    leaving,
    loseTurns,
    ...answering,
    waking,
    planFiring,
    history,
    handingOn,
  }
}

/** Builds the modules that answer, decide on and execute tool calls outside of their run. */
function createAnswering(platform: Platform, { inbox, posting }: { inbox: Inbox; posting: Said['posting'] }) {
  const asyncResults = createAsyncResults({ inbox })
  const settling = createCallSettling(platform, {
    onMessageAnswered: posting.finishAnswered,
    onAsyncResult: asyncResults.deliver,
  })
  const approvals = createApprovals(platform, { settling, checkInput, onApproved: asyncResults.deliverApproval })
  const onLateResult = asyncResults.deliverLate
  return {
    settling,
    approvals,
    toolCalls: createToolCalls(platform),
    toolAnswers: createToolAnswers(platform, { settling, approvals, checkJson, onLateResult }),
    callClaims: createCallClaims(platform, settling),
    approvalReading: createApprovalReading(platform),
  }
}

type Said = ReturnType<typeof createSaid>

/** Builds the modules for messages of people and runs, and for replies. */
function createSaid(platform: Platform, parts: { runs: Runs; inbox: Inbox }) {
  const announcer = createAnnouncer(platform)
  const dispatch = createDispatch(platform, parts)
  const posting = createPosting(platform, announcer, dispatch)
  const discretion = createDiscretion(platform.db)
  const speech = { announcer, discretion, route: dispatch.route, foresee: dispatch.foresee }
  return {
    announcer,
    posting,
    discretion,
    speech,
    replies: createReplies(platform),
  }
}

export type Core = ReturnType<typeof createCore>
