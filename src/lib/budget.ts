import { BadInputError } from './errors.ts'

/** Spending limits per day (UTC) and per root. A missing limit means unlimited. */
export interface BudgetLimits {
  tokensPerDay?: number
  tokensPerRoot?: number
  usdPerDay?: number
  usdPerRoot?: number
}

/** A change to a budget. Absent fields stay unchanged; null removes a limit. */
export type BudgetInput = { [Limit in keyof BudgetLimits]?: number | null }

const LIMITS = ['tokensPerDay', 'tokensPerRoot', 'usdPerDay', 'usdPerRoot'] as const

/** Returns the limits after a change; null if no limit is left. @throws BadInputError with the invalid field */
export function changedBudget(before: BudgetLimits | null, input: BudgetInput | null): BudgetLimits | null {
  if (input === null) return null
  const after = LIMITS.flatMap((name): [string, number][] => {
    const given = input[name]
    if (given != null && !(Number.isFinite(given) && given >= 0))
      throw new BadInputError('A limit must be 0 or more.', `input.budget.${name}`)
    const limit = given === undefined ? before?.[name] : given
    return limit == null ? [] : [[name, limit]]
  })
  return after.length === 0 ? null : Object.fromEntries(after)
}

/** The owner of an exhausted budget. */
export type OverBudget = 'AGENT' | 'SPACE' | 'HUMAN' | 'ROOT'

/** The reasons that are stored with runs and outcomes that an exhausted budget ended. */
export const WHY_OVER_BUDGET: Record<OverBudget, string> = {
  AGENT: "The agent's budget for today is spent.",
  SPACE: "The space's budget for today is spent.",
  HUMAN: "Today's budget of the person who started this is spent.",
  ROOT: 'The budget of the message or trigger that started this is spent.',
}
