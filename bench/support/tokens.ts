import type { Generation } from './model.ts'
import { now } from './model.ts'

/** When the numbered tokens of many generations arrived, by `<n>.<index>`. */
export interface TokenNotes {
  arrivedAt: Map<string, number>
  /** Adds a piece of a text, which may end within a token. The key identifies the text. */
  note(key: string, delta: string): void
}

export function createTokenNotes(): TokenNotes {
  const arrivedAt = new Map<string, number>()
  const tails = new Map<string, string>()
  return {
    arrivedAt,
    note(key, delta) {
      const at = now()
      const text = (tails.get(key) ?? '') + delta
      const end = text.lastIndexOf(' ') + 1
      for (const token of text.slice(0, end).split(' ')) if (token !== '') arrivedAt.set(token, at)
      tails.set(key, text.slice(end))
    },
  }
}

/** Returns the milliseconds from the model's socket to the record, for each token. @throws if a token never arrived */
export function delaysOf(generations: Generation[], arrivedAt: Map<string, number>): number[] {
  return generations.flatMap(({ n, sentAt }) =>
    // The last entry is the end of the input, not a token.
    sentAt.slice(0, -1).map((sent, index) => {
      const arrived = arrivedAt.get(`${n}.${index}`)
      if (arrived === undefined) throw new Error(`token ${n}.${index} never arrived`)
      return arrived - sent
    }),
  )
}
