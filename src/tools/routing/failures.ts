import type { Refusal } from '../../rules/chain.ts'
import { ToolFailure } from '../tool.ts'

/** @throws ToolFailure if the action was refused */
export function orFail(refusal: Refusal | null): void {
  if (refusal !== null) throw new ToolFailure(refusal.code, refusal.message)
}

/** @throws ToolFailure if another tool of the same step has already ended the run */
export function failIfOver({ ending }: { ending: unknown }): void {
  if (ending !== null)
    throw new ToolFailure('RUN_IS_OVER', 'You have already ended this run: no further calls are executed.')
}
