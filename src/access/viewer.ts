import type { HumanRole } from '../generated/prisma/enums.ts'

/** The authenticated caller. "Who may do what" in the contract lists the permissions. */
export type Viewer = AdminViewer | HumanViewer | ServiceViewer

interface AnyViewer {
  /**
   * The access token or session; its end ends the viewer's subscriptions. Null for a JWT and for the operator's token.
   */
  tokenId: string | null
  /** When the credential expires; null for never. */
  expiresAt: Date | null
}

/** The operator: may read and do everything except post messages. */
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
  /** The human's role, only for sessions and JWTs, where it counts. Absent: MEMBER. `isAdmin` of rules/permissions.ts decides. */
  role?: HumanRole
  /** Set while an admin acts as this human: see rules/acting.ts. */
  acting?: Acting
}

/** An admin who acts as somebody else. */
export interface Acting {
  /** The human with the role ADMIN; null for the operator and for an access token with the scope ADMIN. */
  adminId: string | null
}

/** An external program: triggers agents and answers their EXTERNAL calls. */
export interface ServiceViewer extends AnyViewer {
  scope: 'SERVICE'
  /** The id of the token; runs that it triggers have it as `triggerServiceId`. */
  id: string
  /** The name shown for its triggers. */
  name: string
  /** The agents that the token grants; null for all. */
  agentIds: string[] | null
}

/** The viewer id of PARLEY_ADMIN_TOKEN: well-formed, but not the id of any token. */
export const OPERATOR_ID = `acc_${'0'.repeat(32)}`

/** Whether a service was granted an agent. */
export function isGranted(viewer: ServiceViewer, agentId: string): boolean {
  return viewer.agentIds === null || viewer.agentIds.includes(agentId)
}
