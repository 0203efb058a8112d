import { BadInputError } from '../lib/errors.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { checkInteger } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import { type WaitLimits, waitSecondsOf } from '../rules/approvals.ts'

/** The approval that a tool's calls need, as it is stored with the tool. Fields that were not given are null. */
export type ApprovalPolicy = {
  quorum: number
  /** The approvers; null for every human member of the space that shows the call. */
  approverIds: string[] | null
  /** The time limit for the approval. `waitSecondsOf` returns the default for null. */
  expiresInSeconds: number | null
  escalateAfterSeconds: number | null
  escalateToIds: string[] | null
  /**
   * Whether a run's time limit is suspended while a call waits. Absent in policies stored before
   * PARLEY_APPROVAL_WAIT_SECONDS was introduced.
   */
  patient?: boolean
}

export interface ApprovalPolicyInput {
  quorum: number
  approverIds?: readonly string[] | null
  expiresInSeconds?: number | null
  escalateAfterSeconds?: number | null
  escalateToIds?: readonly string[] | null
}

const MOST_QUORUM = 50
const MOST_NAMED = 100
/** The maximum time limit: 30 days. */
const LONGEST_WAIT_SECONDS = 2_592_000

/**
 * Validates a policy. Returns null if there is none. `checkPeople` checks whether the approvers exist.
 * @throws BadInputError with the invalid field
 */
export function checkApproval(
  input: ApprovalPolicyInput | null | undefined,
  field: string,
  limits: WaitLimits,
): ApprovalPolicy | null {
  if (input == null) return null
  const quorum = checkInteger(input.quorum, 1, MOST_QUORUM, `${field}.quorum`)
  const approverIds = checkNamed(input.approverIds, `${field}.approverIds`)
  const escalateToIds = checkNamed(input.escalateToIds, `${field}.escalateToIds`)
  const expiresInSeconds = checkSeconds(input.expiresInSeconds, LONGEST_WAIT_SECONDS, `${field}.expiresInSeconds`)
  const latest = waitSecondsOf({ expiresInSeconds, patient: true }, limits) - 1
  const escalateAfterSeconds = checkSeconds(input.escalateAfterSeconds, latest, `${field}.escalateAfterSeconds`)
  if (escalateAfterSeconds !== null && escalateToIds === null)
    throw new BadInputError(
      'escalateAfterSeconds requires escalateToIds: name the humans who decide after that time.',
      `${field}.escalateToIds`,
    )
  if (escalateToIds !== null && escalateAfterSeconds === null)
    throw new BadInputError(
      'escalateToIds requires escalateAfterSeconds: set the time after which they may decide.',
      `${field}.escalateAfterSeconds`,
    )
  const named = approverIds === null ? null : new Set([...approverIds, ...(escalateToIds ?? [])])
  if (named !== null && named.size < quorum)
    throw new BadInputError(
      `The quorum of ${quorum} exceeds the number of named humans (${named.size}).`,
      `${field}.quorum`,
    )
  return { quorum, approverIds, expiresInSeconds, escalateAfterSeconds, escalateToIds, patient: true }
}

function checkNamed(ids: readonly string[] | null | undefined, field: string): string[] | null {
  if (ids == null) return null
  const named = [...new Set(ids)]
  if (named.length < 1 || named.length > MOST_NAMED)
    throw new BadInputError(`Name 1 to ${MOST_NAMED} humans, or omit the field.`, field)
  return named
}

function checkSeconds(seconds: number | null | undefined, most: number, field: string): number | null {
  return seconds == null ? null : checkInteger(seconds, 1, most, field)
}

/** A policy, with the input field that contains it. */
export interface PolicyField {
  field: string
  approval: ApprovalPolicy | null
}

/** Checks that all ids in the policies belong to existing humans. @throws BadInputError with the invalid field */
export async function checkPeople(tx: Tx, policies: readonly PolicyField[]): Promise<void> {
  const named = policies.flatMap(({ field, approval }) => [
    { field: `${field}.approval.approverIds`, ids: approval?.approverIds ?? [] },
    { field: `${field}.approval.escalateToIds`, ids: approval?.escalateToIds ?? [] },
  ])
  const ids = wellFormedIds([...new Set(named.flatMap((list) => list.ids))])
  if (named.every((list) => list.ids.length === 0)) return
  const humans = await tx.entity.findMany({
    where: { id: { in: ids }, kind: 'HUMAN', goneAt: null },
    select: { id: true },
  })
  const known = new Set(humans.map(({ id }) => id))
  const wrong = named.find((list) => !list.ids.every((id) => known.has(id)))
  if (wrong !== undefined) throw new BadInputError('Every id must be the id of an existing human.', wrong.field)
}
