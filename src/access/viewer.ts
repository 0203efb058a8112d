/** Who is asking. What they may do stands in the contract, "Who may do what". */
export type Viewer = AdminViewer | HumanViewer | ServiceViewer

interface AnyViewer {
  /** The token it came by: revoking it ends what the viewer watches. Null for a JWT and for the operator's own token. */
  tokenId: string | null
  /** When it ceases to be good; null for never. */
  expiresAt: Date | null
}

/** The operator: sees and does everything, and posts as nobody. */
export interface AdminViewer extends AnyViewer {
  scope: 'ADMIN'
  /** The token's id, or OPERATOR_ID. */
  id: string
}

/** Acts as one human. */
export interface HumanViewer extends AnyViewer {
  scope: 'HUMAN'
  /** The human's id. */
  id: string
}

/** A program outside: triggers agents and answers their EXTERNAL calls. */
export interface ServiceViewer extends AnyViewer {
  scope: 'SERVICE'
  /** The token's id: what the runs it triggers carry as `triggerServiceId`. */
  id: string
  /** What its triggers are called. */
  name: string
  /** The agents that it was granted; null for all. */
  agentIds: string[] | null
}

/** The id of whoever comes with PARLEY_ADMIN_TOKEN: well-formed, and no token's. */
export const OPERATOR_ID = `acc_${'0'.repeat(32)}`

/** Whether a service was granted an agent. */
export function isGranted(viewer: ServiceViewer, agentId: string): boolean {
  return viewer.agentIds === null || viewer.agentIds.includes(agentId)
}
