import { parsePartialJson } from 'ai'
import { sleep } from '../lib/async.ts'
import { isTooDeep, type JsonObject, toJson } from '../lib/json.ts'

/** The input of a shown call, while the model writes it. */
export interface InputDraft {
  /** Adds raw JSON of the input. */
  push(delta: string): void
  /** Stops reporting. Resolves when no report is in progress. */
  end(): Promise<void>
}

/** Minimum interval between two updates for viewers. */
const SHORTEST_PAUSE_MS = 100

/**
 * Reports the input streamed so far, as an object with its complete fields and the beginning of the
 * current one: the first time at once, then at most every 100 ms and one report at a time. Reports
 * nothing before the first property, or if the input is not JSON.
 */
export function createInputDraft(tell: (input: JsonObject) => Promise<void>): InputDraft {
  const over = new AbortController()
  let written = ''
  let told = ''
  let telling: Promise<void> | null = null

  async function tellOn(): Promise<void> {
    while (told !== written && !over.signal.aborted) {
      told = written
      const input = await inputIn(told)
      if (input === null || over.signal.aborted) continue
      await tell(input)
      await sleep(SHORTEST_PAUSE_MS, over.signal)
    }
    telling = null
  }

  return {
    push(delta) {
      written += delta
      telling ??= tellOn()
    },
    async end() {
      over.abort()
      await telling
    },
  }
}

async function inputIn(json: string): Promise<JsonObject | null> {
  const { value } = await parsePartialJson(json)
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isTooDeep(value)) return null
  return Object.keys(value).length === 0 ? null : (toJson(value) as JsonObject)
}
