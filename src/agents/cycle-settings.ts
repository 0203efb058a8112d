import { BadInputError } from '../lib/errors.ts'
import { checkInteger } from '../lib/validate.ts'

/** Settings of the think cycles of a persistent agent. */
export interface CycleSettings {
  maxConsciousnessTokens: number
  minRecentCycles: number
  /** Whether each step except the first shows the model a preview of the waiting inbox events. */
  inboxPreview: boolean
  /** Whether each step except the first claims urgent events and shows them to the model in full. */
  urgentInjection: boolean
  /** The humans and spaces whose messages are urgent. */
  urgentFrom: string[]
  /** Whether the cycle ends when it has sent as many messages as it received from spaces. */
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

/** Returns the settings of a new agent. Fields that are absent or null get the default. */
export function newCycle(input: CycleSettingsInput): CycleSettings {
  const set = Object.entries(input).filter(([, value]) => value != null)
  return checkCycle({ ...DEFAULT_CYCLE, ...Object.fromEntries(set) })
}

/** Returns the settings after an update. Absent fields stay unchanged. No field may be null. */
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
    throw new BadInputError(`The list can contain at most ${MOST_URGENT_SOURCES} ids.`, 'input.cycle.urgentFrom')
  }
  return { ...cycle, urgentFrom }
}
