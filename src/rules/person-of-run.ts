/** The facts that determine whose credentials a run may use. */
export interface RunRequesters {
  /** The humans on whose behalf the run works. */
  readonly askers: readonly string[]
  /**
   * Whether an admin or the operator wrote, edited or repeated a message that began the run while acting as the sender.
   */
  readonly isActed: boolean
  /** Whether a requester's message to the agent caused the run. In a think cycle, this must be true of every event. */
  readonly isOwn: boolean
}

export type RunPerson = { type: 'person'; humanId: string } | { type: 'none'; reason: string }

/**
 * Returns the person whose credentials a run uses: its only requester, if only messages of this requester began the
 * run. Any other cause can contain text by other people.
 */
export function personOfRun({ askers, isActed, isOwn }: RunRequesters): RunPerson {
  const [only, ...others] = askers
  if (only === undefined) return { type: 'none', reason: NOBODY }
  if (isActed) return { type: 'none', reason: ACTED }
  if (others.length > 0) return { type: 'none', reason: SEVERAL }
  return isOwn ? { type: 'person', humanId: only } : { type: 'none', reason: INDIRECT }
}

const NOBODY =
  'Each person uses this tool with their own authorization, and this run does not work for a person: nobody requested it.'
const SEVERAL =
  'Each person uses this tool with their own authorization, and this run works for several people at once. Ask one of them to write to you about this alone.'
const ACTED =
  'Each person uses this tool with their own authorization, and an admin acted as that person. Only messages that the person wrote themselves may use it.'
const INDIRECT =
  'Each person uses this tool with their own authorization, and something other than messages of one person caused this run: a plan, a service, a result, or another agent. Ask the person to write to you about this alone.'
