import { createInbox, type Inbox } from '../agents/inbox.ts'
import { createRecalling } from '../agents/recall.ts'
import { createWaking } from '../agents/waking.ts'
import { createAsyncResults } from '../minds/async-results.ts'
import { createCycleEnd } from '../minds/cycle-end.ts'
import { estimateTokens } from '../minds/token-usage.ts'
import { createPlanFiring } from '../plans/firing.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { createDispatch } from '../routing/dispatch.ts'
import { createHandingOn } from '../routing/handing-on.ts'
import { createLeaving } from '../routing/leaving.ts'
import { collectOutcomeChanges } from '../routing/outcome-changes.ts'
import { createReplyWaits } from '../routing/reply-waits.ts'
import { createRunEnd } from '../routing/run-end.ts'
import { createJournal } from '../runs/journal.ts'
import { createLifecycle } from '../runs/lifecycle.ts'
import { shownCalls } from '../runs/readable-calls.ts'
import { createRunProgress } from '../runs/run-progress.ts'
import { createRuns, type Runs } from '../runs/runs.ts'
import { createToolAnswers } from '../runs/tool-answers.ts'
import { createToolCalls } from '../runs/tool-calls.ts'
import { createAnnouncer } from '../spaces/announcer.ts'
import { createHistory } from '../spaces/history.ts'
import { createPosting } from '../spaces/posting.ts'
import { createReplies } from '../spaces/replies.ts'
import { createAftermath } from '../speech/aftermath.ts'

/** What a message, a plan or a service sets off, and what posting and ending need of one another: the one circle, closed here. */
export function createCore(platform: Platform) {
  const runs = createRuns(platform)
  const runProgress = createRunProgress(platform)
  const inbox = createInbox(platform)
  const said = createSaid(platform, { runs, inbox })
  const runEnd = createRunEnd(platform, { runs, inbox })
  const outcomes = (tx: Tx) => collectOutcomeChanges(tx, platform.log)
  const lifecycle = createLifecycle(
    platform,
    createAftermath(platform, said.announcer),
    createCycleEnd(platform, { ...runEnd, outcomes }),
  )
  const leaving = createLeaving(platform, { runEnd, lifecycle })
  const asyncResults = createAsyncResults({ inbox })
  const toolCalls = createToolCalls(platform)
  const toolAnswers = createToolAnswers(platform, {
    onMessageAnswered: said.posting.finishAnswered,
    onAsyncResult: asyncResults.deliver,
    onLateResult: asyncResults.deliverLate,
  })
  const waking = createWaking({ inbox, startRuns: runs.start })
  const planFiring = createPlanFiring(platform, {
    wake: (tx, { agent, ...plan }) => waking.wake(tx, agent, { type: 'PLAN', ...plan }),
  })
  const history = createHistory(platform, { shownCalls })
  const handingOn = createHandingOn(platform)
  const journal = createJournal(platform)
  const recalling = createRecalling(platform, { estimateTokens })
  return {
    ...said,
    runs,
    runProgress,
    inbox,
    journal,
    recalling,
    lifecycle,
    leaving,
    toolCalls,
    toolAnswers,
    waking,
    planFiring,
    history,
    handingOn,
  }
}

/** What is said in spaces, by people and runs, and what answers whom. */
function createSaid(platform: Platform, parts: { runs: Runs; inbox: Inbox }) {
  const announcer = createAnnouncer(platform)
  const dispatch = createDispatch(platform, parts)
  const posting = createPosting(platform, announcer, dispatch)
  const speech = { announcer, route: dispatch.route }
  return {
    announcer,
    posting,
    speech,
    replies: createReplies(platform),
    replyWaits: createReplyWaits(platform, posting),
  }
}

export type Core = ReturnType<typeof createCore>
