/** The facts that decide whose own authorization a run may use. */
export interface RunRequesters {
  /** The humans on whose behalf the run works. */
  readonly askers: readonly string[]
  /** Null: an inbox, a plan or a service. */
  readonly triggerSenderId: string | null
  /** An admin wrote in the name of a requester. */
  readonly isActed: boolean
}

export type RunPerson = { type: 'person'; humanId: string } | { type: 'none'; reason: string }

/**
 * Returns the person whose own authorization a run uses: its requester; of several, the one who triggered it. An admin who acts
 * as somebody else does not get that person's authorization.
 */
export function personOfRun({ askers, triggerSenderId, isActed }: RunRequesters): RunPerson {
  if (isActed) return { type: 'none', reason: ACTED }
  const [only, ...others] = askers
  if (only === undefined) return { type: 'none', reason: NOBODY }
  if (others.length === 0) return { type: 'person', humanId: only }
  const sender = askers.find((id) => id === triggerSenderId)
  return sender === undefined ? { type: 'none', reason: SEVERAL } : { type: 'person', humanId: sender }
}

const NOBODY =
  'Each person uses this tool with their own authorization, and you work for nobody now: no person has asked for this.'
const SEVERAL =
  'Each person uses this tool with their own authorization, and you work for several people at once. Ask one of them to write to you about this alone.'
const ACTED =
  'Each person uses this tool with their own authorization, and an admin has written in the name of that person. Only what the person writes themself may use it.'
