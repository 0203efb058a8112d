import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Run } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import type { Runs } from '../runs/runs.ts'
import type { Lifecycle } from './lifecycle.ts'

/** Stops runs for viewers. */
export interface StopRun {
  /**
   * Stops a run. Returns the run, and those stopped runs of its tree that the viewer may see.
   * @throws NotFoundError; ForbiddenError for services; ConflictError if no run was active
   */
  stopRun(viewer: Viewer, input: { runId: string; cascade: boolean }): Promise<{ run: Run; stoppedRuns: Run[] }>
}

interface StopRunParts {
  visibility: Pick<Visibility, 'runs'>
  lifecycle: Pick<Lifecycle, 'stop'>
  runs: Pick<Runs, 'getMany'>
}

export function createStopRun({ visibility, lifecycle, runs }: StopRunParts): StopRun {
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
  }
}
