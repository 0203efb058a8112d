import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Run, ToolCall } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { toJson } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Runs } from './runs.ts'
import type { ToolAnswers } from './tool-answers.ts'
import type { BriefCall, ToolCalls } from './tool-call-reading.ts'
import type { Answerer } from './tool-calls.ts'

/** Stopping runs and answering waiting calls, for viewers. */
export interface Control {
  /**
   * @returns the run, and the stopped runs of its tree that the viewer may see
   * @throws NotFoundError; ForbiddenError for services; ConflictError if no run was active
   */
  stopRun(viewer: Viewer, input: { runId: string; cascade: boolean }): Promise<{ run: Run; stoppedRuns: Run[] }>
  /** @throws NotFoundError, ForbiddenError, ConflictError, BadInputError, RateLimitedError */
  submitToolResult(viewer: Viewer, input: { toolCallId: string; result: unknown }): Promise<ToolCall>
  /** The calls that the viewer may answer, oldest first; at most 100. */
  pendingToolCalls(viewer: Viewer): Promise<BriefCall[]>
}

interface ControlParts {
  visibility: Visibility
  lifecycle: Lifecycle
  runs: Pick<Runs, 'getMany'>
  toolCalls: ToolCalls
  toolAnswers: Pick<ToolAnswers, 'submit'>
}

const MOST_PENDING = 100

const byAge = (a: ToolCall, b: ToolCall) => (a.id < b.id ? -1 : 1)

export function createControl(
  { db }: Platform,
  { visibility, lifecycle, runs, toolCalls, toolAnswers }: ControlParts,
): Control {
  return {
    async stopRun(viewer, { runId, cascade }) {
      const [run] = await runs.getMany([runId])
      if (run == null || !(await visibility.runs(viewer, [run])).has(run.id))
        throw new NotFoundError('There is no such run.')
      if (viewer.scope === 'SERVICE')
        throw new ForbiddenError('A service cannot stop runs: ask an admin or a member of the space.')
      const byId = viewer.scope === 'HUMAN' ? viewer.id : null
      const stopped = await lifecycle.stop(runId, { cascade, byId })
      if (stopped.length === 0) throw new ConflictError('The run has already ended.')
      const visible = await visibility.runs(viewer, stopped)
      const [first] = stopped
      return {
        run: first?.id === runId ? first : run,
        stoppedRuns: stopped.filter(({ id }) => visible.has(id)),
      }
    },
    async submitToolResult(viewer, { toolCallId, result }) {
      const [call] = await toolCalls.getMany([toolCallId])
      if (call == null || !(await visibility.toolCalls(viewer, [call])).has(call.id)) {
        throw new NotFoundError('There is no such tool call.')
      }
      const waits = toolCalls.waitsFor(call)
      if (waits === 'MESSAGE')
        throw new ConflictError('This call waits for a message: post one in its space (sendMessage).')
      if (waits === 'DECISION')
        throw new ConflictError('This call waits for a decision: approve or deny it first (decideToolCall).')
      if (!(await mayAnswer(viewer, call, visibility))) throw new ForbiddenError(whoAnswers(call))
      const requester = { id: viewer.id, isPatient: viewer.scope === 'ADMIN' }
      return toolAnswers.submit(call, toJson(result), answererOf(viewer), requester)
    },
    async pendingToolCalls(viewer) {
      if (viewer.scope === 'ADMIN') return toolCalls.waiting({ spaceIds: null, agentIds: null }, MOST_PENDING)
      if (viewer.scope === 'SERVICE')
        return toolCalls.waiting({ spaceIds: [], agentIds: viewer.agentIds }, MOST_PENDING)
      const memberships = await db.prisma.membership.findMany({
        where: { entityId: viewer.id },
        select: { spaceId: true },
      })
      const spaceIds = memberships.map(({ spaceId }) => spaceId)
      const found = await Promise.all([
        toolCalls.waiting({ spaceIds, agentIds: [] }, MOST_PENDING),
        toolCalls.askingHuman(viewer.id, spaceIds, MOST_PENDING),
        toolCalls.askingToDecide(viewer.id, spaceIds, MOST_PENDING),
      ])
      return found.flat().toSorted(byAge).slice(0, MOST_PENDING)
    },
  }
}

function answererOf(viewer: Viewer): Answerer {
  return {
    humanId: viewer.scope === 'HUMAN' ? viewer.id : null,
    serviceName: viewer.scope === 'SERVICE' ? viewer.name : null,
  }
}

/**
 * SPACE calls are answered by members of the space in which they are shown, EXTERNAL ones by
 * services with a grant for the agent.
 */
async function mayAnswer(viewer: Viewer, call: ToolCall, visibility: Visibility): Promise<boolean> {
  if (viewer.scope === 'ADMIN') return true
  if (viewer.scope === 'SERVICE')
    return call.execution === 'EXTERNAL' && visibility.agents(viewer, [call.agentId]).has(call.agentId)
  return call.execution === 'SPACE' && call.spaceId !== null && (await visibility.isMember(call.spaceId, viewer.id))
}

function whoAnswers({ execution }: ToolCall): string {
  if (execution === 'SPACE') return 'Only a member of the space in which the call shows can answer it.'
  if (execution === 'EXTERNAL') return 'Only a service with a grant for the agent can answer this call.'
  return 'The server executes this call itself: no result can be submitted.'
}
