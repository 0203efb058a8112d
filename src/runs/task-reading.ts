import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Run } from '../generated/prisma/client.ts'
import { mayDecide } from '../rules/approvals.ts'
import { waitsFor } from '../rules/call-answers.ts'
import { isAdmin } from '../rules/permissions.ts'
import { isAnswerable, questionKeyOf, type TaskPart, type TaskStatus, taskStatusOf } from '../rules/task-state.ts'
import type { Reading } from '../spaces/reading.ts'
import type { ApprovalReading } from './approval-reading.ts'
import type { Runs } from './runs.ts'
import type { BriefCall, ToolCalls } from './tool-call-reading.ts'

/** The state of a task as one viewer sees it. */
export interface ReadTask {
  status: TaskStatus
  parts: TaskPart[]
  /** The space of the task's message; null if the viewer may not see that space. */
  spaceId: string | null
  lastChangeAt: Date
  /** The runs of the task that the viewer may see. */
  runs: Pick<Run, 'id' | 'agentId'>[]
  /** The keys of the questions that wait for the viewer (see `questionKeyOf`). */
  questions: string[]
}

/**
 * Reads the state of tasks for background work. The protocol endpoints read tasks with GraphQL operations, which apply
 * the same rules.
 */
export interface TaskReading {
  /** Returns null if there is no task with this id that the viewer may see. */
  read(viewer: Viewer, id: string): Promise<ReadTask | null>
}

export interface TaskReadingParts {
  visibility: Pick<Visibility, 'messages' | 'spaces' | 'runs' | 'runsOfHumans' | 'toolCalls'>
  reading: Pick<Reading, 'getMany' | 'outcomesMany'>
  runs: Pick<Runs, 'getMany'>
  toolCalls: Pick<ToolCalls, 'ofRuns' | 'pendingToolCalls'>
  approvalReading: ApprovalReading
}

/**
 * The maximum length of the list of pending calls. If the list is full, there can be newer calls that the viewer may
 * answer but that are not listed.
 */
const MOST_LISTED = 100

export function createTaskReading({
  visibility,
  reading,
  runs,
  toolCalls,
  approvalReading,
}: TaskReadingParts): TaskReading {
  async function seenRuns(viewer: Viewer, ids: string[]): Promise<Run[]> {
    const found = (await runs.getMany(ids)).filter((run) => run !== null)
    if (viewer.scope !== 'HUMAN' || isAdmin(viewer)) {
      const seen = await visibility.runs(viewer, found)
      return found.filter(({ id }) => seen.has(id))
    }
    const seen = await visibility.runsOfHumans(found.map((run) => ({ humanId: viewer.id, run })))
    return found.filter(({ id }) => seen.get(viewer.id)?.has(id))
  }

  /** Returns those calls of the runs that wait for an answer which the viewer may give. */
  async function pendingOf(viewer: Viewer, runIds: string[]): Promise<BriefCall[]> {
    const waiting = [...(await toolCalls.ofRuns(runIds)).values()].flat().filter((call) => {
      const wait = waitsFor(call)
      return wait === 'RESULT' || wait === 'DECISION'
    })
    if (waiting.length === 0) return []
    const [listed, seen, approvals] = await Promise.all([
      toolCalls.pendingToolCalls(viewer),
      visibility.toolCalls(viewer, waiting),
      approvalReading.standingOf(waiting),
    ])
    const listedIds = new Set(listed.map(({ id }) => id))
    return waiting.filter((call) => {
      const standing = approvals.get(call.id)
      const decides = viewer.scope === 'HUMAN' && standing !== undefined && mayDecide(call, standing, viewer.id)
      const mayAnswer = isAnswerable({ waitsFor: waitsFor(call), mayDecide: decides })
      return mayAnswer && seen.has(call.id) && (listed.length >= MOST_LISTED || listedIds.has(call.id))
    })
  }

  async function taskOf(
    viewer: Viewer,
    found: { seen: Run[]; parts: TaskPart[]; spaceId: string | null; times: (Date | null)[] },
  ): Promise<ReadTask> {
    const { seen, parts, spaceId, times } = found
    const pending = await pendingOf(
      viewer,
      seen.map(({ id }) => id),
    )
    const changes = [
      ...times,
      ...seen.flatMap(({ queuedAt, startedAt, finishedAt }) => [queuedAt, startedAt, finishedAt]),
    ]
    return {
      status: taskStatusOf(parts, pending.length > 0),
      parts,
      spaceId,
      runs: seen.map(({ id, agentId }) => ({ id, agentId })),
      lastChangeAt: new Date(Math.max(...changes.map((time) => time?.getTime() ?? 0))),
      questions: pending.map((call) => questionKeyOf({ ...call, waitsFor: waitsFor(call) })),
    }
  }

  return {
    async read(viewer, id) {
      if (id.startsWith('run_')) {
        const [run] = await seenRuns(viewer, [id])
        if (run === undefined) return null
        const { triggerSpaceId, triggerMessageId, status, finishedAt } = run
        const spaces = await visibility.spaces(viewer, triggerSpaceId === null ? [] : [triggerSpaceId])
        const parts = [{ kind: 'RUN', hasRead: finishedAt !== null, runStatus: status }]
        const spaceId = triggerMessageId !== null && spaces.size > 0 ? triggerSpaceId : null
        return taskOf(viewer, { seen: [run], parts, spaceId, times: [] })
      }
      const [message] = await reading.getMany([id])
      if (message == null || !(await visibility.messages(viewer, [message])).has(id)) return null
      const outcomes = (await reading.outcomesMany([id])).get(id) ?? []
      const seen = await seenRuns(
        viewer,
        outcomes.flatMap(({ runId }) => runId ?? []),
      )
      const statuses = new Map(seen.map((run) => [run.id, run.status]))
      const parts = outcomes.map(({ kind, runId, readAt }) => ({
        kind,
        hasRead: readAt !== null,
        runStatus: statuses.get(runId ?? '') ?? null,
      }))
      const times = [message.createdAt, ...outcomes.map(({ readAt }) => readAt)]
      return taskOf(viewer, { seen, parts, spaceId: message.spaceId, times })
    },
  }
}
