import type { Refusal } from '../../confidentiality/discretion.ts'
import { ToolFailure } from '../tool.ts'

/** The failure of a call for a space that the agent is not a member of. */
export const notAMember = (): ToolFailure =>
  new ToolFailure(
    'NOT_A_MEMBER',
    'You are not a member of that space. Your spaces are listed under YOUR SPACES, with their ids.',
  )

/** @throws ToolFailure if the confidentiality guard has refused */
export function orConfidential(refusal: Refusal | null): void {
  if (refusal !== null) throw new ToolFailure(refusal.code, refusal.message)
}

/** The failure of a call that needs an active space. */
export const noActiveSpace = (): ToolFailure =>
  new ToolFailure(
    'NO_ACTIVE_SPACE',
    'You have not entered a space yet: call enter_space first, with the id of one of YOUR SPACES.',
  )
