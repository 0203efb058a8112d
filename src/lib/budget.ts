import { BadInputError } from './errors.ts'

/** What may be spent: by a day (UTC), and by all that comes of one root. An absent limit is none. */
export interface BudgetLimits {
  tokensPerDay?: number
  tokensPerRoot?: number
  usdPerDay?: number
  usdPerRoot?: number
}

/** What a budget changes: a field left out stays, null lifts it. */
export type BudgetInput = { [Limit in keyof BudgetLimits]?: number | null }

const LIMITS = ['tokensPerDay', 'tokensPerRoot', 'usdPerDay', 'usdPerRoot'] as const

/** The limits after a change; null where none is left, or the whole is lifted. @throws BadInputError with the field at fault */
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
