import { cut } from '../lib/json.ts'

/**
 * Returns the line that shows a memory in an agent's instructions. A trace looks for these lines to find the memories
 * of a step.
 */
export const memoryLine = ({ key, value }: { key: string; value: string }): string =>
  `- ${JSON.stringify(key)}: ${JSON.stringify(value)}`

/** The kinds of steps in a trace. They equal the values of WhyKind in the API. */
export const WHY_KINDS = [
  'MESSAGE',
  'TOOL_CALL',
  'STEP',
  'RUN',
  'AGENT_VERSION',
  'MEMORY',
  'PLAN',
  'SERVICE',
  'HUMAN',
  'HIDDEN',
  'ERASED',
] as const
export type WhyKind = (typeof WHY_KINDS)[number]

/** A cause in a trace. */
export interface Cause {
  /** A key that is unique among the causes. */
  key: string
  kind: WhyKind
  text: string
  at: Date | null
  /** The keys of the direct causes of this cause. */
  causes: readonly string[]
}

/** A step of a trace. `causes` are the indexes of the steps that caused it. */
export interface WhyStep {
  kind: WhyKind
  id: string | null
  text: string
  at: Date | null
  causes: number[]
}

/** The maximum number of steps in a trace. */
export const MOST_WHY_STEPS = 500
/** The maximum number of characters in the text of a step. */
export const LONGEST_WHY_TEXT = 600

/**
 * Returns the steps of a trace in the order of the causes. The first cause is the object to explain. Merges two hidden
 * causes into one step if one caused the other or if both led to the same step, so that their number stays secret.
 * Omits causes that are not in the list.
 */
export function stepsOf(causes: readonly Cause[]): WhyStep[] {
  const byKey = new Map(causes.map((cause) => [cause.key, cause]))
  const first = mergedHidden(causes, byKey)
  const keyOf = (key: string) => first.get(key) ?? key
  const kept = causes.filter(({ key }) => keyOf(key) === key).slice(0, MOST_WHY_STEPS)
  const indexes = new Map(kept.map(({ key }, index) => [key, index]))
  const causesOf = new Map<string, number[]>()
  for (const { key, causes: from } of causes) {
    const index = indexes.get(keyOf(key))
    const known = from.flatMap((one) => indexes.get(keyOf(one)) ?? []).filter((one) => one !== index)
    causesOf.set(keyOf(key), [...(causesOf.get(keyOf(key)) ?? []), ...known])
  }
  return kept.map(({ key, kind, text, at }) => {
    const isGap = kind === 'HIDDEN' || kind === 'ERASED'
    const from = [...new Set(causesOf.get(key))].sort((a, b) => a - b)
    return {
      kind,
      id: isGap ? null : key,
      text: isGap ? GAPS[kind] : cut(text, LONGEST_WHY_TEXT),
      at: isGap ? null : at,
      causes: from,
    }
  })
}

const GAPS = {
  HIDDEN: 'Something that you may not see.',
  ERASED: 'Something that was erased, or deleted when its retention period ended.',
}

/** Merges adjacent hidden causes. Maps the key of each hidden cause to the key of the cause that represents it. */
function mergedHidden(causes: readonly Cause[], byKey: ReadonlyMap<string, Cause>): Map<string, string> {
  const parent = new Map<string, string>()
  const isHidden = (key: string) => byKey.get(key)?.kind === 'HIDDEN'
  const order = new Map(causes.map(({ key }, index) => [key, index]))
  const rootOf = (key: string): string => {
    const next = parent.get(key) ?? key
    return next === key ? key : rootOf(next)
  }
  const join = (one: string, other: string) => {
    const [a, b] = [rootOf(one), rootOf(other)].sort((x, y) => (order.get(x) ?? 0) - (order.get(y) ?? 0))
    if (a !== undefined && b !== undefined) parent.set(b, a)
  }
  for (const { key, causes: from } of causes) {
    const hidden = from.filter(isHidden)
    for (const one of hidden) join(isHidden(key) ? key : (hidden[0] ?? one), one)
  }
  return new Map(causes.flatMap(({ key }) => (isHidden(key) ? [[key, rootOf(key)] as const] : [])))
}
