import { createTextFieldScanner } from './text-field.ts'

/** What is known of an utterance while the model writes the call's input, in whatever order it writes the fields. */
export interface UtteranceScanner {
  /** Takes more of the input's JSON; answers with the text that can be streamed now. */
  push(delta: string): string
  /** Null until it is known. */
  spaceId(): string | null
  /** Null as long as none is known. */
  mention(): string | null
}

/**
 * Scans an input with a text in `field` and, where it names its space, `spaceId` and `mention`: then nothing streams before the
 * space is known. White space alone does not begin a text.
 */
export function createUtteranceScanner(field: string, { namesSpace }: { namesSpace: boolean }): UtteranceScanner {
  const text = createTextFieldScanner(field)
  const space = createIdScanner('spaceId')
  const mention = createIdScanner('mention')
  let held = ''
  let begun = false

  return {
    push(delta) {
      if (namesSpace) {
        space.push(delta)
        mention.push(delta)
      }
      held += text.push(delta).replaceAll('\0', '')
      begun ||= (!namesSpace || space.value() !== null) && held.trim() !== ''
      if (!begun) return ''
      const now = held
      held = ''
      return now
    },
    spaceId: () => space.value(),
    mention: () => mention.value(),
  }
}

function createIdScanner(field: string) {
  const scanner = createTextFieldScanner(field)
  let value = ''
  return {
    push(delta: string) {
      value += scanner.push(delta)
    },
    value: () => (scanner.isComplete() && value !== '' ? value : null),
  }
}
