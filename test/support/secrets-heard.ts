/** A word that is said once, where it can be told from all others. */
interface Canary {
  spaceId: string
  /** Of the time in which its space has been confidential without a break; null for a word that was said openly. */
  since: number | null
}

export interface Place {
  id: string
  humans: Set<string>
  /** Of the time in which it is confidential; null where it is not. */
  since: number | null
}

/** Who may be told which word, and who was told what they may not hear. */
export interface Hearing {
  betrayals: string[]
  /** A word that was never said before, of this place as it is now. */
  coin(place: Place): string
  wordsIn(text: string): string[]
  /** It is said there now: all who are there hear it. */
  saidIn(place: Place, text: string, where: string): void
  /** Somebody is shown it: they may have heard it before, or read it where it was said. */
  shownTo(humanId: string, text: string, where: string): void
  /** It leaves for where nobody belongs. */
  leaves(text: string, where: string): void
  /** A row keeps it, which says that it comes from these spaces. */
  isKept(marks: readonly string[], text: string, where: string): void
}

/** Of one length: what cuts a text short leaves no other word. */
const CANARY = /canary-\d{6}/g

/** Where in a text a word stands. */
function around(text: string, word: string): string {
  const at = text.indexOf(word)
  return `…${text.slice(Math.max(0, at - 300), at + 60)}…`
}

/** No play says the word of another. */
let lastWord = 0

export function createHearing(places: readonly Place[]): Hearing {
  const canaries = new Map<string, Canary>()
  const heard = new Set<string>()
  const betrayals: string[] = []

  const wordsIn = (text: string) => [...new Set(text.match(CANARY) ?? [])]

  /** Where a word comes from that is confidential ever since; null for one that is free. */
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
