import { BadInputError } from '../lib/errors.ts'

/** Settings of a model call, with the AI SDK's names. The provider's defaults apply to absent settings. */
export interface ModelSettings {
  temperature?: number
  topP?: number
  reasoningEffort?: ReasoningEffort
  maxOutputTokens?: number
  serviceTier?: ServiceTier
}

const REASONING_EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
/**
 * The service tiers of OpenAI, Anthropic and Google. If the provider does not support a value, the value is not sent.
 */
const SERVICE_TIERS = ['auto', 'default', 'flex', 'priority', 'standard', 'standard_only'] as const
const MOST_OUTPUT_TOKENS = 1_000_000

export type ReasoningEffort = (typeof REASONING_EFFORTS)[number]
export type ServiceTier = (typeof SERVICE_TIERS)[number]

/** Returns a sentence that describes the fault in a value; null if the value is valid. */
type Rule = (value: unknown) => string | null

const RULES: Record<keyof ModelSettings, Rule> = {
  temperature: between(0, 2),
  topP: between(0, 1),
  reasoningEffort: oneOf(REASONING_EFFORTS),
  maxOutputTokens: (value) =>
    Number.isInteger(value) ? between(1, MOST_OUTPUT_TOKENS)(value) : 'Must be a whole number.',
  serviceTier: oneOf(SERVICE_TIERS),
}

/**
 * Validates settings. Null fields are treated as absent. Returns null if no field is set. @throws BadInputError with
 * the invalid field
 */
export function checkModelSettings(given: unknown, field: string): ModelSettings | null {
  if (given === null || given === undefined) return null
  if (typeof given !== 'object' || Array.isArray(given))
    throw new BadInputError('modelSettings must be an object.', field)
  const set = Object.entries(given).filter(([, value]) => value !== null)
  for (const [name, value] of set) {
    if (!Object.hasOwn(RULES, name)) {
      throw new BadInputError(
        `Unknown model setting. Known settings: ${Object.keys(RULES).join(', ')}.`,
        `${field}.${name.slice(0, 64)}`,
      )
    }
    const fault = RULES[name as keyof ModelSettings](value)
    if (fault !== null) throw new BadInputError(fault, `${field}.${name}`)
  }
  return set.length === 0 ? null : (Object.fromEntries(set) as ModelSettings)
}

function between(least: number, most: number): Rule {
  return (value) =>
    typeof value === 'number' && value >= least && value <= most
      ? null
      : `Must be a number between ${least} and ${most}.`
}

function oneOf(values: readonly string[]): Rule {
  return (value) => (values.includes(value as string) ? null : `Must be one of ${values.join(', ')}.`)
}
