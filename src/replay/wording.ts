import { isDeepStrictEqual } from 'node:util'
import type { Outcome, Run, ToolCall } from '../generated/prisma/client.ts'
import { isObject } from '../lib/json.ts'
import { ID, type IdMap, TIME } from './ids.ts'
import type { Recorded, Recording, RoomRows } from './recording.ts'
import { BROKEN_OFF, isOutside } from './schedule.ts'

// A later release can use other words in the server's own texts. The field and the code with which a text is stored
// show whether it is such a text. Only the data in such texts is compared: quotations, ids, names and numbers.

/** The result of a comparison. `wording` means that only the server's own words differ. */
export type Sameness = 'same' | 'wording' | 'different'

/** Compares texts by the server in a recording and its replay. */
export interface Wording {
  /** Whether two texts by the server contain the same data, in any order. */
  hasSameData(recorded: string, replayed: string): boolean
  /** Compares two stored values. */
  compare(recorded: Worded, replayed: Worded): Sameness
  /** Records that the server's texts in two values correspond, because prompts can quote these texts. */
  pair(recorded: Worded, replayed: Worded): void
  /** Replaces those strings in a recorded value that are paired texts. */
  toReplay(value: unknown): unknown
}

/** @param unquoted texts by others that the server includes without quotation marks, such as names */
export function createWording(ids: IdMap, unquoted: readonly string[]): Wording {
  const pairs = new Map<string, string>()
  const given = [...new Set(unquoted)]
    .filter((text) => text !== '')
    .sort((a, b) => b.length - a.length)
    .map((text) => `(?<![\\p{L}\\p{N}])${text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}(?![\\p{L}\\p{N}])`)
  const data = new RegExp([QUOTED, ID, TIME, ...given, NUMBER].join('|'), 'gu')
  const isTime = new RegExp(`^${TIME}$`)
  const dataIn = (text: string) => (text.match(data) ?? []).filter((piece) => !isTime.test(piece))

  function hasSameData(recorded: string, replayed: string): boolean {
    const before = dataIn(recorded).map((piece) => quotedPair(piece) ?? piece)
    const after = dataIn(replayed)
    return isDeepStrictEqual(ids.toReplay(before).sort(), after.toSorted()) || ids.areSame(before, after)
  }

  function quotedPair(piece: string): string | undefined {
    for (const [recorded, replayed] of pairs) if (JSON.stringify(recorded) === piece) return JSON.stringify(replayed)
    return undefined
  }

  function toReplay(value: unknown): unknown {
    if (typeof value === 'string') return pairs.get(value) ?? value
    if (Array.isArray(value)) return value.map(toReplay)
    if (!isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toReplay(inner)]))
  }

  return {
    hasSameData,
    toReplay,
    compare(recorded, replayed) {
      if (!ids.areSame(recorded.rest, replayed.rest)) return 'different'
      if (ids.areSame(recorded.own, replayed.own)) return 'same'
      return recorded.own.every((text, index) => hasSameData(text, replayed.own[index] ?? '')) ? 'wording' : 'different'
    },
    pair(recorded, replayed) {
      for (const [index, text] of recorded.own.entries()) {
        const other = replayed.own[index] ?? text
        if (other !== text) pairs.set(text, other)
      }
    },
  }
}

const QUOTED = '"(?:[^"\\\\\\n]|\\\\.)*"'
const NUMBER = '(?<![\\p{L}\\p{N}_.])\\d+(?:\\.\\d+)?'

/** Returns the texts by others that the server includes in its own texts without quotation marks. */
export function unquotedIn({ entities, space, calls }: Pick<Recording, 'entities' | 'space' | 'calls'>): string[] {
  const reasons = calls.flatMap(({ toolName, input }) => {
    const reason = toolName === 'delegate' && isObject(input) ? input['reason'] : null
    return typeof reason === 'string' ? [reason] : []
  })
  return [...entities.map(({ name }) => name), space.name, ...reasons]
}

/** A stored value with texts by the server, separated into these texts and the value without them. */
export interface Worded {
  own: string[]
  rest: unknown
}

const worded = (own: readonly (string | null)[], rest: unknown): Worded => ({
  own: own.map((text) => text ?? ''),
  rest: [rest, own.map((text) => text === null)],
})

/** The codes of failures whose text comes from an HTTP tool or an MCP server. */
const CODES_OF_TOOLS = ['BAD_STATUS', 'TOOL_FAILED']

/**
 * Separates the server's texts from a call's result. The server words notes about files. It also words failures, unless
 * a person, a service or an external tool answered.
 */
export function wordedResult(call: Recorded<ToolCall>): Worded {
  const { output, error, toolName, answeredById, answeredByService } = call
  if (!isObject(output) || answeredById !== null || answeredByService !== null) return worded([], [output, error])
  const { error: failure, note } = output
  if (isObject(failure) && typeof failure['message'] === 'string') {
    const { message, ...others } = failure
    const isOfTool = isOutside(call) && CODES_OF_TOOLS.includes(String(failure['code']))
    return isOfTool ? worded([], [output, error]) : worded([message as string, error], { ...output, error: others })
  }
  const isNote = READS_FILES.includes(toolName) && call.execution === null && typeof note === 'string'
  return isNote ? worded([note], [{ ...output, note: null }, error]) : worded([], [output, error])
}

const READS_FILES = ['read_file', 'readFile']

/**
 * Separates the server's text from the end of a run. The server words the error of a failed run, unless the model's
 * provider sent it. If a stream is cut off, the engine detects this, so the server words that error too.
 */
export function wordedEnd(
  { id, summary, fault, error, stopReason }: Recorded<Run>,
  { steps }: Pick<RoomRows, 'steps'>,
): Worded {
  const last = steps.findLast(({ runId }) => runId === id)
  const isOfProvider = stopReason === 'MODEL_FAILED' && !BROKEN_OFF.has(last?.finishReason ?? '')
  return isOfProvider ? worded([], [summary, fault, error]) : worded([error], [summary, fault])
}

/**
 * Separates the server's texts from an outcome. The server words all outcomes, except for the reason that an agent
 * gives for skipping.
 */
export function wordedOutcome({ kind, reason, error }: Pick<Recorded<Outcome>, 'kind' | 'reason' | 'error'>): Worded {
  return kind === 'SKIPPED' ? worded([error], [kind, reason]) : worded([reason, error], kind)
}
