import type { Viewer } from '../access/viewer.ts'
import { createGrantPublisher } from '../agents/grant-publisher.ts'
import { readToolVersions } from '../agents/tool-versions.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { isObject, toJson } from '../lib/json.ts'
import { checkSchema } from '../lib/schema-checks.ts'
import { checkJsonSize, checkText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireInPerson } from '../rules/acting.ts'
import { termsOf } from '../rules/approvals.ts'
import { isAdmin } from '../rules/permissions.ts'
import {
  checkBounds,
  type GrantBounds,
  type GrantBoundsInput,
  type ReadGrant,
  requireLive,
  requireUndecided,
} from '../rules/standing-grants.ts'
import type { GrantReading } from '../runs/grant-reading.ts'
import {
  activateIfApproved,
  countLiveGrants,
  denyGrant,
  insertGrant,
  lockGrant,
  readGrantDeciders,
  readGrantDecisions,
  recordGrantDecision,
  revokeGrant,
} from '../stores/grant-store.ts'
import type { DecideCall } from './decide-call.ts'

export interface ProposeGrantInput extends GrantBoundsInput {
  toolCallId: string
  /** Whether the proposer also approves the call on which the proposal is based. */
  approveCall: boolean
}

/** Manages standing grants. A standing grant approves certain tool calls in advance. */
export interface StandingGrants {
  /**
   * Proposes a grant for calls similar to one that waits for approval. Also records the proposer's approval of the
   * grant. The grant becomes active when as many approvers have approved it as the tool's policy requires.
   * @throws NotFoundError, ForbiddenError; ConflictError if the call is already decided, if every call to its tool
   * needs approval (`alwaysAsk`), or if the tool has changed; BadInputError; RateLimitedError if too many schemas of
   * this human are waiting for validation
   */
  propose(viewer: Viewer, input: ProposeGrantInput): Promise<{ standingGrant: ReadGrant; toolCall: ToolCall }>
  /**
   * Approves or denies a grant. The first denial ends the grant.
   * @throws NotFoundError, ForbiddenError, ConflictError, BadInputError
   */
  decide(viewer: Viewer, input: { id: string; approve: boolean; reason?: string | null }): Promise<ReadGrant>
  /**
   * Ends a grant immediately. The grant then approves no further calls. Only the grant's approvers and admins may do
   * this.
   * @throws NotFoundError, ForbiddenError, ConflictError
   */
  revoke(viewer: Viewer, input: { id: string }): Promise<ReadGrant>
}

interface GrantParts {
  decideCall: Pick<DecideCall, 'decidable' | 'decideAnd'>
  grantReading: Pick<GrantReading, 'getMany' | 'visible'>
}

/**
 * The maximum number of active or proposed grants for one tool in one space. Each call is compared with all of them.
 */
const MOST_LIVE = 20
const LONGEST_REASON = 2000
/** The maximum length of a schema in characters. The same limit applies to a tool's schema. */
const LONGEST_SCHEMA = 65_536
const NO_SUCH_GRANT = 'There is no such standing grant.'
const HUMANS_ONLY = 'Only a human can decide on standing grants: use the token of a human.'
const NO_APPROVER = 'You are not an approver of this standing grant.'
const ALWAYS_ASKED = 'Every call to this tool needs approval (alwaysAsk), so no standing grant is possible.'
const TOOL_CHANGED = 'The tool was changed after this call was made: propose a standing grant from a later call.'

export function createStandingGrants(platform: Platform, { decideCall, grantReading }: GrantParts): StandingGrants {
  const { db } = platform
  const publisher = createGrantPublisher(platform)

  async function visibleGrant(viewer: Viewer, id: string): Promise<void> {
    const [grant] = await grantReading.getMany([id])
    if (grant == null || !(await grantReading.visible(viewer, [id])).has(id)) throw new NotFoundError(NO_SUCH_GRANT)
  }

  /** Locks a grant and changes it. */
  async function change(id: string, work: (tx: Tx, grant: ReadGrant) => Promise<void>): Promise<ReadGrant> {
    const changed = await db.transaction(async (tx) => {
      const grant = await lockGrant(tx, id)
      if (grant === null) throw new NotFoundError(NO_SUCH_GRANT)
      await work(tx, grant)
      return (await lockGrant(tx, id)) ?? grant
    })
    await publisher.changed(changed)
    return changed
  }

  return {
    async propose(viewer, { toolCallId, approveCall, ...input }) {
      const { call, humanId } = await decideCall.decidable(viewer, toolCallId)
      const bounds = checkBounds(input, termsOf(call)?.inputSchema ?? {})
      await checkGrantSchema(bounds, humanId)
      const id = newId('grt')
      const insert = (tx: Tx) => proposeIn(tx, call, { id, humanId, bounds })
      const { call: toolCall, also: standingGrant } = await decideCall.decideAnd({ call, humanId, approveCall }, insert)
      await publisher.changed(standingGrant)
      return { standingGrant, toolCall }
    },
    async decide(viewer, { id, approve, reason }) {
      await visibleGrant(viewer, id)
      if (viewer.scope !== 'HUMAN') throw new ForbiddenError(HUMANS_ONLY)
      requireInPerson(viewer, 'decide on standing grants')
      const humanId = viewer.id
      const checkedReason = reason ? checkText(reason, LONGEST_REASON, 'input.reason') : null
      return change(id, async (tx, grant) => {
        await requireDecider(tx, id, humanId)
        requireUndecided(grant)
        const decided = await readGrantDecisions(tx, [id])
        if (decided.some((decision) => decision.humanId === humanId))
          throw new ConflictError('You have already decided on this standing grant.')
        await recordGrantDecision(tx, { grantId: id, humanId, approve, reason: checkedReason })
        await (approve ? activateIfApproved(tx, id) : denyGrant(tx, id))
      })
    },
    async revoke(viewer, { id }) {
      await visibleGrant(viewer, id)
      requireInPerson(viewer, 'decide on standing grants')
      return change(id, async (tx, grant) => {
        if (!isAdmin(viewer)) await requireDecider(tx, id, viewer.id)
        requireLive(grant)
        await revokeGrant(tx, id, viewer.scope === 'HUMAN' ? viewer.id : null)
      })
    },
  }
}

async function requireDecider(tx: Tx, grantId: string, humanId: string): Promise<void> {
  const deciders = await readGrantDeciders(tx, [grantId])
  if (!deciders.some(({ id }) => id === humanId)) throw new ForbiddenError(NO_APPROVER)
}

interface Proposal {
  id: string
  humanId: string
  bounds: GrantBounds
}

/** Writes a proposed grant, in the transaction that has locked the call. */
async function proposeIn(tx: Tx, call: ToolCall, { id, humanId, bounds }: Proposal): Promise<ReadGrant> {
  const { agentId, toolName, spaceId, approverIds, places, label } = call
  const terms = termsOf(call)
  const version = (await readToolVersions(tx, agentId)).get(toolName)
  if (terms === null || version === undefined || version.versionDigest !== terms.toolDigest)
    throw new ConflictError(TOOL_CHANGED)
  if (version.grantDigest === null) throw new ConflictError(ALWAYS_ASKED)
  if (terms.grantDigest != null && terms.grantDigest !== version.grantDigest) throw new ConflictError(TOOL_CHANGED)
  if ((await countLiveGrants(tx, { agentId, toolName, spaceId })) >= MOST_LIVE)
    throw new ConflictError(`This tool has ${MOST_LIVE} standing grants here, the maximum: revoke one first.`)
  const place = { agentId, toolName, toolDigest: version.grantDigest, spaceId }
  const { quorum } = terms
  await insertGrant(tx, { id, ...place, quorum, approverIds, proposedById: humanId, places, label, ...bounds })
  await requireDecider(tx, id, humanId)
  await recordGrantDecision(tx, { grantId: id, humanId, approve: true, reason: null })
  await activateIfApproved(tx, id)
  const grant = await lockGrant(tx, id)
  if (grant === null) throw new Error(`the standing grant ${id} was not written`)
  return grant
}

/**
 * Checks the schema before any row is locked, because checking a user's schema can be slow.
 * @throws BadInputError
 */
async function checkGrantSchema(bounds: GrantBounds, humanId: string): Promise<void> {
  const field = 'input.inputSchema'
  if (bounds.inputSchema === null) return
  if (!isObject(bounds.inputSchema)) throw new BadInputError('A JSON Schema must be an object.', field)
  checkJsonSize(bounds.inputSchema, field)
  const isLong = JSON.stringify(bounds.inputSchema).length > LONGEST_SCHEMA
  const fault = isLong
    ? `A schema has at most ${LONGEST_SCHEMA} characters.`
    : await checkSchema(bounds.inputSchema, { id: humanId, isPatient: false })
  if (fault !== null) throw new BadInputError(fault, field)
  bounds.inputSchema = toJson(bounds.inputSchema)
}
