import type { IdMap } from './ids.ts'
import { withoutPreviews } from './momentary.ts'

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

/** A difference of two prompts. `isWording`: only the server's own wording differs. */
export interface PromptDifference {
  what: string
  recorded: string
  replayed: string
  isWording: boolean
}

/** Sections about the agent's other runs: a line for each, and of `runNotice` two lines around them. */
const OF_RUNS = ['ACTIVE RUNS:', '⚠ You currently have']
const RUN_LINE = /^- (?:Run )?(run_[0-9a-f]{32})\b/
/** The status of a run in its line, and its progress. */
const DOING = /(?<= \(|, )(?:queued|running|waiting_tool)(?:\)|, (?:not started yet|started [^)]*)\).*$)/

/**
 * Compares the instructions of a step. Lines about spaces, runs, people and agents that are not part of the recording are
 * left out on the recorded side.
 */
export function compareInstructions(
  recorded: string,
  replayed: string,
  {
    ids,
    isKnown,
    mayMiss,
  }: {
    ids: IdMap
    isKnown(id: string): boolean /** Whether only one side may list a recorded run. */
    mayMiss(runId: string): boolean
  },
): PromptDifference[] {
  const differences: PromptDifference[] = []
  const [own, ownReplayed] = [ownInstructions(recorded), ownInstructions(replayed)]
  if (!ids.areSame(own, ownReplayed))
    differences.push({ what: 'the instructions of the agent', recorded: own, replayed: ownReplayed, isWording: false })
  const [a, b] = [sectionsOf(recorded), sectionsOf(replayed)]
  const isOfRoom = (line: string) => (line.match(/\b[a-z]{3}_[0-9a-f]{32}\b/g) ?? []).every(isKnown)
  for (const title of new Set([...a.keys(), ...b.keys()])) {
    if (OF_RUNS.some((one) => title.startsWith(one))) continue
    const isData = OF_DATA.some((one) => title.startsWith(one))
    const [lines = [], others = []] = [a.get(title), b.get(title)]
    const kept = isData ? lines.filter((line) => !line.startsWith('- ') || isOfRoom(line)) : lines
    const [text, other] = [kept.join('\n'), others.join('\n')]
    if (ids.areSame(text, other)) continue
    const isWording = !isData || ids.areSame(dataIn(text), dataIn(other))
    differences.push({ what: `the section ${title.replace(/:.*$/s, '')}`, recorded: text, replayed: other, isWording })
  }
  return [...differences, ...runDifferences(a, b, { ids, isOfRoom, mayMiss })]
}

/** Compares the lines about the agent's other runs. */
function runDifferences(
  a: Map<string, string[]>,
  b: Map<string, string[]>,
  { ids, isOfRoom, mayMiss }: { ids: IdMap; isOfRoom(line: string): boolean; mayMiss(runId: string): boolean },
): PromptDifference[] {
  const differences: PromptDifference[] = []
  for (const title of OF_RUNS) {
    const [lines, others] = [runLines(a, title, isOfRoom), runLines(b, title, () => true)]
    for (const { id, one: line, other: otherLine } of pairsOf(lines, others, ids)) {
      const isOneSided = line === undefined || otherLine === undefined
      if (isOneSided ? id !== undefined && mayMiss(id) : ids.areSame(line, otherLine)) continue
      const what = `the section ${title.replace(':', '')}`
      const [recorded, replayed] = [line ?? '(nothing)', otherLine ?? '(nothing)']
      const isWording = !isOneSided && ids.areSame(dataIn(line), dataIn(otherLine))
      differences.push({ what, recorded, replayed, isWording })
    }
  }
  return differences
}

/** Pairs the entries of two sides about the same runs. `id`: the recorded one; undefined for a run that only the replay has. */
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

/** An entry in a list of the agent's runs, without the status and progress of the run. */
type ListedRun = Record<'runId' | 'triggerType' | 'triggerSummary' | 'triggerSource' | 'about', unknown>

/**
 * Whether two results of the tool that lists the agent's runs are equal, except for runs of other spaces and other momentary
 * inputs.
 */
export function areSameLists(
  recorded: unknown,
  replayed: unknown,
  { ids, isKnown, mayMiss }: { ids: IdMap; isKnown(id: string): boolean; mayMiss(runId: string): boolean },
): boolean {
  const [lists, others] = [recorded, replayed].map((output) => {
    const { runs, otherActiveRuns } = (output ?? {}) as { runs?: ListedRun[]; otherActiveRuns?: ListedRun[] }
    return new Map((runs ?? otherActiveRuns ?? []).map((run) => [String(run.runId), run]))
  }) as [Map<string, ListedRun>, Map<string, ListedRun>]
  const told = ({ triggerType, triggerSummary, triggerSource, about }: ListedRun) => [
    ...[triggerType, triggerSummary, triggerSource, about].map((text) => text ?? null),
  ]
  return pairsOf(lists, others, ids).every(({ id, one, other }) => {
    if (one !== undefined && other !== undefined) return ids.areSame(told(one), told(other))
    return id !== undefined && (!isKnown(id) || mayMiss(id))
  })
}

/** Returns the lines of a section about runs by the run's id, without the progress of the run at that time. */
function runLines(
  sections: Map<string, string[]>,
  title: string,
  isMeant: (line: string) => boolean,
): Map<string, string> {
  const lines = [...sections].find(([one]) => one.startsWith(title))?.[1] ?? []
  return new Map(
    lines.filter(isMeant).flatMap((line) => {
      const [, id] = RUN_LINE.exec(line) ?? []
      return id === undefined ? [] : [[id, line.replace(DOING, '…')] as const]
    }),
  )
}

/** Compares the user messages and results that a step adds to the prompt, except previews of the inbox. */
export function compareMessages(
  recordedMessages: unknown,
  replayedMessages: unknown,
  ids: IdMap,
): PromptDifference | null {
  const [recorded, replayed] = [withoutPreviews(recordedMessages), withoutPreviews(replayedMessages)]
  if (ids.areSame(recorded, replayed)) return null
  const [a, b] = [textIn(recorded), textIn(replayed)]
  const isWording = ids.areSame(dataIn(a), dataIn(b))
  return { what: 'the messages', recorded: a, replayed: b, isWording }
}

const dataIn = (text: string): string[] => text.match(DATA) ?? []

function ownInstructions(text: string): string {
  const end = text.indexOf(HOW_YOU_ACT)
  const identity = end === -1 ? text : text.slice(0, end)
  // The first paragraph was written by the server.
  const begin = identity.indexOf('\n\n')
  return begin === -1 ? '' : identity.slice(begin + 2)
}

function sectionsOf(text: string): Map<string, string[]> {
  const begin = text.indexOf(HOW_YOU_ACT)
  const rest = begin === -1 ? '' : text.slice(begin + 2)
  const sections = rest.split(/\n\n(?=[A-Z][A-Z' ]+:|⚠ You currently have)/).filter((section) => section !== '')
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
