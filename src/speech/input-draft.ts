import { parsePartialJson } from 'ai'
import { sleep } from '../lib/async.ts'
import { isTooDeep, type JsonObject, toJson } from '../lib/json.ts'

/** The input of a call that shows, while the model writes it. */
export interface InputDraft {
  /** More of the input, as raw JSON. */
  push(delta: string): void
  /** Nothing more is told of it. Resolves when nothing of it is under way. */
  end(): Promise<void>
}

/** Between two looks of others at it, at least. */
const SHORTEST_PAUSE_MS = 100

/**
 * Tells what of an input is written so far, as an object with what is complete and the beginning of what is not: the first piece at
 * once, later ones joined over 100 ms, and each after the one before is told. Nothing before it has a property, nor what is no JSON.
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
