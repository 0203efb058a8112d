import type { Refusal } from '../../confidence/discretion.ts'
import { ToolFailure } from '../tool.ts'

/** For a space that the agent named and does not belong to. */
export const notAMember = (): ToolFailure =>
  new ToolFailure(
    'NOT_A_MEMBER',
    'You are not a member of that space. Your spaces are listed under YOUR SPACES, with their ids.',
  )

/** What the rules of confidential spaces refuse. @throws ToolFailure for a refusal */
export function orConfidential(refusal: Refusal | null): void {
  if (refusal !== null) throw new ToolFailure(refusal.code, refusal.message)
}

/** For what is done in the active space, before one was entered. */
export const noActiveSpace = (): ToolFailure =>
  new ToolFailure(
    'NO_ACTIVE_SPACE',
    'You are in no space yet: call enter_space first, with the id of one of YOUR SPACES.',
  )
