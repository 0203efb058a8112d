import type { HumanRole } from '../generated/prisma/enums.ts'

/** The authenticated caller. The section "Who may do what" of the contract lists the permissions. */
export type Viewer = AdminViewer | HumanViewer | ServiceViewer

interface AnyViewer {
  /**
   * The access token or session. When it ends, the viewer's subscriptions end too. Null for a JWT and for the
   * operator's token.
   */
  tokenId: string | null
  /** When the credential expires; null if never. */
  expiresAt: Date | null
}

/** The operator, or an access token of an admin. This viewer may read and do everything, except post messages. */
export interface AdminViewer extends AnyViewer {
  scope: 'ADMIN'
  /** The token's id, or OPERATOR_ID. */
  id: string
}

/** A human, with the rights of that human. */
export interface HumanViewer extends AnyViewer {
  scope: 'HUMAN'
  /** The human's id. */
  id: string
  /**
   * The human's role if the viewer signed in with a session or JWT. With other credentials, the role has no effect.
   * Absent means MEMBER. `isAdmin` of rules/permissions.ts evaluates the role.
   */
  role?: HumanRole
  /** Set while an admin acts as this human (see rules/acting.ts). */
  acting?: Acting
}

/** The admin who acts as another human. */
export interface Acting {
  /** A human with the role ADMIN; null for the operator and for an access token with the scope ADMIN. */
  adminId: string | null
}

/** An external program that triggers agents and answers their EXTERNAL calls. */
export interface ServiceViewer extends AnyViewer {
  scope: 'SERVICE'
  /** The id of the token. Runs that the service triggers store it as `triggerServiceId`. */
  id: string
  /** The name that is shown with its triggers. */
  name: string
  /** The agents that the token may trigger; null for all agents. */
  agentIds: string[] | null
}

/** The viewer id for PARLEY_ADMIN_TOKEN. It has the format of a token id, but no token has this id. */
export const OPERATOR_ID = `acc_${'0'.repeat(32)}`

/** Whether a service's token gives access to an agent. */
export function isGranted(viewer: ServiceViewer, agentId: string): boolean {
  return viewer.agentIds === null || viewer.agentIds.includes(agentId)
}
