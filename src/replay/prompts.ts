import type { IdMap } from './ids.ts'

/** Sections of the instructions that contain data. The rest, except the agent's own instructions, is the server's wording. */
const OF_DATA = [
  'YOUR SPACES:',
  'OTHER AGENTS:',
  'YOUR GOALS:',
  'YOUR MEMORIES:',
  'YOUR PLANS:',
  'ACTIVE RUNS:',
  'DECISIONS:',
]
const HOW_YOU_ACT = '\n\nHOW YOU ACT:'
const DATA = /"(?:[^"\\\n]|\\.)*"|\b[a-z]{3}_[0-9a-f]{32}\b/g

/** A difference of two prompts. `isWording`: only the server's own words differ. */
export interface PromptDifference {
  what: string
  recorded: string
  replayed: string
  isWording: boolean
}

/**
 * Compares the instructions of a step. Lines about spaces, runs, people and agents that are not part of the recording are
 * left out on the recorded side.
 */
export function compareInstructions(
  recorded: string,
  replayed: string,
  { ids, isKnown }: { ids: IdMap; isKnown(id: string): boolean },
): PromptDifference[] {
  const differences: PromptDifference[] = []
  const [own, ownReplayed] = [ownInstructions(recorded), ownInstructions(replayed)]
  if (!ids.areSame(own, ownReplayed))
    differences.push({ what: 'the instructions of the agent', recorded: own, replayed: ownReplayed, isWording: false })
  const [a, b] = [sectionsOf(recorded), sectionsOf(replayed)]
  const isOfRoom = (line: string) => (line.match(/\b[a-z]{3}_[0-9a-f]{32}\b/g) ?? []).every(isKnown)
  for (const title of new Set([...a.keys(), ...b.keys()])) {
    const isData = OF_DATA.some((one) => title.startsWith(one))
    const [lines = [], others = []] = [a.get(title), b.get(title)]
    const kept = isData ? lines.filter((line) => !line.startsWith('- ') || isOfRoom(line)) : lines
    const [text, other] = [kept.join('\n'), others.join('\n')]
    if (ids.areSame(text, other)) continue
    const isWording = !isData || ids.areSame(dataIn(text), dataIn(other))
    differences.push({ what: `the section ${title.replace(/:.*$/s, '')}`, recorded: text, replayed: other, isWording })
  }
  return differences
}

/** Compares the user messages and results that a step adds to the prompt. */
export function compareMessages(recorded: unknown, replayed: unknown, ids: IdMap): PromptDifference | null {
  if (ids.areSame(recorded, replayed)) return null
  const [a, b] = [textIn(recorded), textIn(replayed)]
  const isWording = ids.areSame(dataIn(a), dataIn(b))
  return { what: 'the messages', recorded: a, replayed: b, isWording }
}

const dataIn = (text: string): string[] => text.match(DATA) ?? []

function ownInstructions(text: string): string {
  const end = text.indexOf(HOW_YOU_ACT)
  const identity = end === -1 ? text : text.slice(0, end)
  // The first paragraph is the server's.
  const begin = identity.indexOf('\n\n')
  return begin === -1 ? '' : identity.slice(begin + 2)
}

function sectionsOf(text: string): Map<string, string[]> {
  const begin = text.indexOf(HOW_YOU_ACT)
  const rest = begin === -1 ? '' : text.slice(begin + 2)
  const sections = rest.split(/\n\n(?=[A-Z][A-Z' ]+:)/).filter((section) => section !== '')
  return new Map(
    sections.map((section) => {
      const [title = '', ...lines] = section.split('\n')
      return [title, lines]
    }),
  )
}

function textIn(messages: unknown): string {
  if (!Array.isArray(messages)) return JSON.stringify(messages)
  return messages
    .map(({ content }: { content: unknown }) =>
      typeof content === 'string'
        ? content
        : Array.isArray(content) && content.every((part: { type: string }) => part.type === 'text')
          ? content.map((part: { text: string }) => part.text).join('\n')
          : JSON.stringify(content),
    )
    .join('\n')
}
