import { BadInputError } from '../lib/errors.ts'
import { checkInteger } from '../lib/validate.ts'

/** How a persistent mind thinks. */
export interface CycleSettings {
  maxConsciousnessTokens: number
  minRecentCycles: number
  /** Show the model, before each step but the first, a preview of what waits in its inbox. */
  inboxPreview: boolean
  /** Show the model, before each step but the first, urgent events whole, and take them from the inbox. */
  urgentInjection: boolean
  /** Humans and spaces whose messages count as urgent. */
  urgentFrom: string[]
  /** End the cycle once as many messages were sent as the inbox held space messages. */
  stopWhenAllAnswered: boolean
}

export type CycleSettingsInput = { [Field in keyof CycleSettings]?: CycleSettings[Field] | null }

const DEFAULT_CYCLE: CycleSettings = {
  maxConsciousnessTokens: 100_000,
  minRecentCycles: 10,
  inboxPreview: true,
  urgentInjection: true,
  urgentFrom: [],
  stopWhenAllAnswered: false,
}

const LARGEST_CONSCIOUSNESS_TOKENS = 10_000_000
const MOST_RECENT_CYCLES = 10_000
const MOST_URGENT_SOURCES = 1000

/** The settings of a new agent: absent fields, and null ones, are the defaults. */
export function newCycle(input: CycleSettingsInput): CycleSettings {
  const set = Object.entries(input).filter(([, value]) => value != null)
  return checkCycle({ ...DEFAULT_CYCLE, ...Object.fromEntries(set) })
}

/** The settings after an update: absent fields stay, none can be null. */
export function changedCycle(before: CycleSettings, input: CycleSettingsInput): CycleSettings {
  const set = Object.entries(input).filter(([, value]) => value !== undefined)
  const empty = set.find(([, value]) => value === null)
  if (empty !== undefined) {
    throw new BadInputError('Must not be null; omit the field to keep its current value.', `input.cycle.${empty[0]}`)
  }
  return checkCycle({ ...before, ...Object.fromEntries(set) })
}

function checkCycle(cycle: CycleSettings): CycleSettings {
  const { maxConsciousnessTokens, minRecentCycles } = cycle
  checkInteger(maxConsciousnessTokens, 1, LARGEST_CONSCIOUSNESS_TOKENS, 'input.cycle.maxConsciousnessTokens')
  checkInteger(minRecentCycles, 0, MOST_RECENT_CYCLES, 'input.cycle.minRecentCycles')
  const urgentFrom = [...new Set(cycle.urgentFrom)]
  if (urgentFrom.length > MOST_URGENT_SOURCES) {
    throw new BadInputError(`At most ${MOST_URGENT_SOURCES} ids.`, 'input.cycle.urgentFrom')
  }
  return { ...cycle, urgentFrom }
}
