import type { Context } from './context.ts'
import type { Run } from './shapes.ts'

/** Whether the viewer may read what a run's trigger was about. */
async function seesTrigger(run: Run, { app, viewer, loaders }: Context): Promise<boolean> {
  if (app.visibility.runThoughts(viewer, run)) return true
  if (run.triggerSpaceId === null) return run.triggerType === 'INBOX' // counts events, quotes none
  return (await loaders.visible.spaces.load(run.triggerSpaceId)) !== null
}

/** A run's trigger in one line: who or what, and about what for those who may see that. */
export async function triggerSummaryFor(run: Run, context: Context): Promise<string> {
  if (await seesTrigger(run, context)) return run.triggerSummary
  switch (run.triggerType) {
    case 'SPACE_MESSAGE': {
      const sender = run.triggerSenderId && (await context.loaders.entities.load(run.triggerSenderId))
      return `${sender ? sender.name : 'Somebody'} in another space`
    }
    case 'PLAN':
      return `The plan "${run.triggerName}"`
    case 'SERVICE':
      return `The service "${run.triggerName}"`
    case 'INBOX':
      return 'Its inbox'
  }
}
