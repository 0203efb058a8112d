import type { IdMap } from './ids.ts'
import { type PromptMessage, withoutPreviews } from './momentary.ts'
import type { Sameness, Worded, Wording } from './wording.ts'

/**
 * Sections of the instructions that contain data. All other text, except the agent's own instructions, is the server's
 * wording.
 */
const OF_DATA = [
  'YOUR SPACES',
  'OTHER AGENTS',
  'YOUR GOALS',
  'YOUR MEMORIES',
  'YOUR PLANS',
  'YOUR TURN IN',
  'TURNS ELSEWHERE',
  'DECISIONS',
]
const HOW_YOU_ACT = '\n\nHOW YOU ACT:'
/** Matches the name of a section: the part of its title before data or a colon. */
const NAME = /(?:[A-Z][A-Z' ]*[A-Z](?= "|:)|⚠ You currently have)/
const BEFORE_SECTION = new RegExp(`\\n\\n(?=${NAME.source})`)

/** A difference between two prompts. `isWording` says that only the server's own wording differs. */
export interface PromptDifference {
  what: string
  recorded: string
  replayed: string
  isWording: boolean
}

/** Sections about the agent's other runs. They have a line for each run. `runNotice` adds two lines around these. */
const OF_RUNS = ['ACTIVE RUNS', '⚠ You currently have']
const RUN_LINE = /^- (?:Run )?(run_[0-9a-f]{32})\b/
/** Matches the status and the progress of a run in the run's line. */
const DOING = /(?<= \(|, )(?:queued|running|waiting_tool)(?:\)|, (?:not started yet|started [^)]*)\).*$)/

interface PromptInput {
  ids: IdMap
  wording: Wording
  isKnown(id: string): boolean
  /** Whether it is a matter of chance that only one side lists a recorded run. */
  mayMiss(runId: string): boolean
}

/**
 * Compares the instructions of a step. Omits lines of the recorded side about spaces, runs, people and agents that are
 * not part of the recording.
 */
export function compareInstructions(
  recorded: string,
  replayed: string,
  { ids, wording, isKnown, mayMiss }: PromptInput,
): PromptDifference[] {
  const differences: PromptDifference[] = []
  const [begin, beginReplayed] = [beginningOf(recorded), beginningOf(replayed)]
  if (!ids.areSame(begin.identity, beginReplayed.identity)) {
    const [one, other] = [begin.identity, beginReplayed.identity]
    const isWording = wording.hasSameData(one, other)
    differences.push({ what: 'the name of the agent', recorded: one, replayed: other, isWording })
  }
  const [own, ownReplayed] = [begin.instructions, beginReplayed.instructions]
  if (!ids.areSame(own, ownReplayed))
    differences.push({ what: 'the instructions of the agent', recorded: own, replayed: ownReplayed, isWording: false })
  const [a, b] = [sectionsOf(recorded), sectionsOf(replayed)]
  const isOfRoom = (line: string) => (line.match(/\b[a-z]{3}_[0-9a-f]{32}\b/g) ?? []).every(isKnown)
  for (const title of new Set([...a.keys(), ...b.keys()])) {
    if (OF_RUNS.includes(title)) continue
    const isData = OF_DATA.includes(title)
    const [lines = [], others = []] = [a.get(title), b.get(title)]
    const kept = isData ? lines.filter((line) => !line.startsWith('- ') || isOfRoom(line)) : lines
    const [text, other] = [kept.join('\n'), others.join('\n')]
    if (ids.areSame(text, other)) continue
    const isWording = !isData || wording.hasSameData(text, other)
    differences.push({ what: `the section ${title}`, recorded: text, replayed: other, isWording })
  }
  return [...differences, ...runDifferences(a, b, { ids, wording, isOfRoom, mayMiss })]
}

/** Compares the lines about the agent's other runs. */
function runDifferences(
  a: Map<string, string[]>,
  b: Map<string, string[]>,
  {
    ids,
    wording,
    isOfRoom,
    mayMiss,
  }: Pick<PromptInput, 'ids' | 'wording' | 'mayMiss'> & { isOfRoom(line: string): boolean },
): PromptDifference[] {
  const differences: PromptDifference[] = []
  for (const title of OF_RUNS) {
    const [lines, others] = [runLines(a, title, isOfRoom), runLines(b, title, () => true)]
    for (const { id, one: line, other: otherLine } of pairsOf(lines, others, ids)) {
      const isOneSided = line === undefined || otherLine === undefined
      if (isOneSided ? id !== undefined && mayMiss(id) : ids.areSame(line, otherLine)) continue
      const what = `the section ${title}`
      const [recorded, replayed] = [line ?? '(nothing)', otherLine ?? '(nothing)']
      const isWording = !isOneSided && wording.hasSameData(line, otherLine)
      differences.push({ what, recorded, replayed, isWording })
    }
  }
  return differences
}

/**
 * Pairs the entries of the two sides that concern the same run. `id` is the recorded run; undefined for a run that
 * exists only in the replay.
 */
function pairsOf<T>(
  recorded: ReadonlyMap<string, T>,
  replayed: ReadonlyMap<string, T>,
  ids: IdMap,
): { id: string | undefined; one: T | undefined; other: T | undefined }[] {
  const alone = [...replayed.keys()].filter((other) => !recorded.has(ids.recordedOf(other) ?? ''))
  return [
    ...[...recorded].map(([id, one]) => ({ id, one, other: replayed.get(ids.replayedOf(id) ?? '') })),
    ...alone.map((other) => ({ id: ids.recordedOf(other), one: undefined, other: replayed.get(other) })),
  ]
}

/** An entry in a list of the agent's runs, without the run's status and progress. */
type ListedRun = Record<'runId' | 'triggerType' | 'triggerSummary' | 'triggerSource' | 'about', unknown>

/**
 * Compares two results of the tool that lists the agent's runs, ignoring runs of other spaces and runs that are listed
 * by chance (momentary.ts).
 */
export function compareLists(
  recorded: unknown,
  replayed: unknown,
  { ids, wording, isKnown, mayMiss }: PromptInput,
): Sameness {
  const [lists, others] = [recorded, replayed].map((output) => {
    const { runs, otherActiveRuns } = (output ?? {}) as { runs?: ListedRun[]; otherActiveRuns?: ListedRun[] }
    return new Map((runs ?? otherActiveRuns ?? []).map((run) => [String(run.runId), run]))
  }) as [Map<string, ListedRun>, Map<string, ListedRun>]
  const found = pairsOf(lists, others, ids).map(({ id, one, other }): Sameness => {
    if (one !== undefined && other !== undefined) return wording.compare(wordedRun(one), wordedRun(other))
    return id !== undefined && (!isKnown(id) || mayMiss(id)) ? 'same' : 'different'
  })
  return found.find((one) => one === 'different') ?? found.find((one) => one === 'wording') ?? 'same'
}

/** The server words the description of the trigger, unless the trigger was a message. */
function wordedRun({ triggerType, triggerSummary = null, triggerSource = null, about = null }: ListedRun): Worded {
  const texts = [triggerSummary, triggerSource, about].map(String)
  return triggerType === 'space_message' ? { own: [], rest: [triggerType, texts] } : { own: texts, rest: triggerType }
}

/** Returns the lines of a section about runs, by the run's id. Omits the progress that the run had at that time. */
function runLines(
  sections: Map<string, string[]>,
  title: string,
  isMeant: (line: string) => boolean,
): Map<string, string> {
  return new Map(
    (sections.get(title) ?? []).filter(isMeant).flatMap((line) => {
      const [, id] = RUN_LINE.exec(line) ?? []
      return id === undefined ? [] : [[id, line.replace(DOING, '…')] as const]
    }),
  )
}

/**
 * Compares the messages that a step adds to the prompt, except previews of the inbox. Only the user messages contain
 * the server's wording.
 */
export function compareMessages(
  recordedMessages: unknown,
  replayedMessages: unknown,
  { ids, wording }: Pick<PromptInput, 'ids' | 'wording'>,
): PromptDifference | null {
  const [recorded, replayed] = [withoutPreviews(recordedMessages), withoutPreviews(replayedMessages)]
  if (ids.areSame(recorded, replayed)) return null
  const [a, b] = [textIn(recorded), textIn(replayed)]
  const isWording =
    recorded.length === replayed.length &&
    recorded.every((message, index) => {
      const other = replayed[index]
      if (other === undefined || message.role !== other.role) return false
      if (message.role !== 'user') return ids.areSame(wording.toReplay(message.content), other.content)
      return wording.hasSameData(textOf(message), textOf(other))
    })
  return { what: 'the messages', recorded: a, replayed: b, isWording }
}

/**
 * Returns the beginning of the instructions: a paragraph by the server with the agent's name, and the agent's own
 * instructions.
 */
function beginningOf(text: string): { identity: string; instructions: string } {
  const end = text.indexOf(HOW_YOU_ACT)
  const whole = end === -1 ? text : text.slice(0, end)
  const at = whole.indexOf('\n\n')
  return at === -1
    ? { identity: whole, instructions: '' }
    : { identity: whole.slice(0, at), instructions: whole.slice(at + 2) }
}

/** Returns the lines of each section, by the section's name. */
function sectionsOf(text: string): Map<string, string[]> {
  const begin = text.indexOf(HOW_YOU_ACT)
  const rest = begin === -1 ? '' : text.slice(begin + 2)
  const sections = rest.split(BEFORE_SECTION).filter((section) => section !== '')
  return new Map(sections.map((section) => [NAME.exec(section)?.[0] ?? '', section.split('\n')]))
}

const textIn = (messages: readonly PromptMessage[]): string => messages.map(textOf).join('\n')

function textOf({ content }: PromptMessage): string {
  if (typeof content === 'string') return content
  return Array.isArray(content) && content.every((part: { type: string }) => part.type === 'text')
    ? content.map((part: { text: string }) => part.text).join('\n')
    : JSON.stringify(content)
}
