/** A unique word, which is posted once. */
interface Canary {
  spaceId: string
  /** The continuous period in which its space is confidential; null for a word that was posted openly. */
  since: number | null
}

export interface Place {
  id: string
  humans: Set<string>
  /** The start of the current confidential period of the space; null if the space is open. */
  since: number | null
}

/** The allowed recipients of each word, and the reads that were forbidden. */
export interface Hearing {
  betrayals: string[]
  /** Returns a new word for the current state of this space. */
  coin(place: Place): string
  wordsIn(text: string): string[]
  /** Records that a text is posted in the space, where all members read it. */
  saidIn(place: Place, text: string, where: string): void
  /** Records that a person reads a text. The person must have read its words before, or have access to their space. */
  shownTo(humanId: string, text: string, where: string): void
  /** Records that a text is sent to external recipients. */
  leaves(text: string, where: string): void
  /** Records that a row stores a text with these spaces as its sources. */
  isKept(marks: readonly string[], text: string, where: string): void
}

/** All words have the same length, so truncating a text never produces another word. */
const CANARY = /canary-\d{6}/g

/** Finds a word in a text. */
function around(text: string, word: string): string {
  const at = text.indexOf(word)
  return `…${text.slice(Math.max(0, at - 300), at + 60)}…`
}

/** The words of each test run differ from those of other runs. */
let lastWord = 0

export function createHearing(places: readonly Place[]): Hearing {
  const canaries = new Map<string, Canary>()
  const heard = new Set<string>()
  const betrayals: string[] = []

  const wordsIn = (text: string) => [...new Set(text.match(CANARY) ?? [])]

  /** Returns the space of a word that is still confidential; null for other words. */
  function sourceOf(word: string): Place | null {
    const from = canaries.get(word)
    const source = places.find(({ id }) => id === from?.spaceId)
    return from?.since != null && source?.since === from.since ? source : null
  }

  function betrayed(who: string, word: string, where: string): void {
    betrayals.push(`${who} meets ${word} of ${sourceOf(word)?.id} in ${where}`)
  }

  return {
    betrayals,
    wordsIn,
    coin(place) {
      lastWord += 1
      const word = `canary-${String(lastWord).padStart(6, '0')}`
      canaries.set(word, { spaceId: place.id, since: place.since })
      return word
    },
    saidIn(place, text, where) {
      for (const word of wordsIn(text)) {
        const source = sourceOf(word)
        for (const human of place.humans) {
          if (source !== null && !source.humans.has(human)) betrayed(human, word, where)
          heard.add(`${human} ${word}`)
        }
        heard.add(`${place.id} ${word}`)
      }
    },
    shownTo(humanId, text, where) {
      const isRead = (word: string) =>
        places.some(({ id, humans }) => humans.has(humanId) && heard.has(`${id} ${word}`))
      for (const word of wordsIn(text)) {
        const source = sourceOf(word)
        const mayHear = source === null || source.humans.has(humanId) || heard.has(`${humanId} ${word}`)
        if (!mayHear && !isRead(word)) betrayed(humanId, word, `${where}: ${around(text, word)}`)
      }
    },
    leaves(text, where) {
      for (const word of wordsIn(text)) if (sourceOf(word) !== null) betrayed('somebody outside', word, where)
    },
    isKept(marks, text, where) {
      for (const word of wordsIn(text)) {
        const source = sourceOf(word)
        if (source !== null && !marks.includes(source.id))
          betrayed('an unmarked row', word, `${where}: ${around(text, word)}`)
      }
    },
  }
}
