import { createInbox } from '../agents/inbox.ts'
import { createWaking } from '../agents/waking.ts'
import { createPlanFiring } from '../plans/firing.ts'
import type { Platform } from '../platform/platform.ts'
import { createDispatch } from '../routing/dispatch.ts'
import { createHandingOn } from '../routing/handing-on.ts'
import { createRunEnd } from '../routing/run-end.ts'
import { createLifecycle } from '../runs/lifecycle.ts'
import { createRuns } from '../runs/runs.ts'
import { createToolCalls } from '../runs/tool-calls.ts'
import { createAnnouncer } from '../spaces/announcer.ts'
import { createCompositePosting } from '../spaces/composite-posting.ts'
import { createHistory } from '../spaces/history.ts'
import { createPosting } from '../spaces/posting.ts'
import { createReplies } from '../spaces/replies.ts'

/** What a message, a plan or a service sets off, and what posting and ending need of one another: the one circle, closed here. */
export function createCore(platform: Platform) {
  const runs = createRuns(platform)
  const inbox = createInbox(platform)
  const announcer = createAnnouncer(platform)
  const dispatch = createDispatch(platform, { runs, inbox })
  const posting = createPosting(platform, announcer, { route: dispatch.route })
  const composites = createCompositePosting(platform, { route: dispatch.route })
  const replies = createReplies(platform)
  const lifecycle = createLifecycle(platform, announcer, createRunEnd(platform, { runs, inbox }))
  const toolCalls = createToolCalls(platform, {
    onMessageAnswered: posting.finishAnswered,
    onAsyncResult: async () => null,
  })
  const waking = createWaking({ inbox, startRuns: runs.start })
  const planFiring = createPlanFiring(platform, {
    wake: (tx, { agent, ...plan }) => waking.wake(tx, agent, { type: 'PLAN', ...plan }),
  })
  const history = createHistory(platform)
  const handingOn = createHandingOn(platform)
  return { runs, inbox, announcer, posting, composites, replies, lifecycle, toolCalls, waking, planFiring, history, handingOn }
}

export type Core = ReturnType<typeof createCore>
