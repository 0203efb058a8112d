import { resultsOfGestures } from './demo-gestures.ts'
import {
  type DemoCall,
  type DemoEvent,
  type DemoMessage,
  type DemoReading,
  type DemoSpace,
  isFailure,
} from './demo-reading.ts'

/** The texts of the demo model. They are scripted, so that the same prompt always gives the same text. */

type MessageEvent = Extract<DemoEvent, { type: 'message' }>
type ReportedEvent = Exclude<DemoEvent, MessageEvent>

/** Returns the answer to a message. It depends on the prompt and the results of the agent's calls. */
export function answerTo(event: MessageEvent, reading: DemoReading): string {
  const { message } = event
  // A reply to an agent does not contain another agent's name or a quotation, so that no other agent is addressed.
  if (message.kind === 'agent') return `I am here. ${ofResults(reading.calls)}${selfDescription(reading)}`.trim()
  const asked = QUESTIONS.filter(({ pattern }) => pattern.test(message.text)).map(({ answer }) =>
    answer(event, reading),
  )
  // An agent with a role in the scene does not explain the setup, because the console's page does.
  const isFirstContact = reading.role === null && !reading.recent.some(({ from }) => from === reading.name)
  const results = ofResults(reading.calls)
  const shown = resultsOfGestures(reading)
  const sentences = [
    `Hello ${message.from}!`,
    results.trim(),
    shown,
    ...asked,
    asked.length === 0 && results === '' && shown === ''
      ? `I read your message${quotation(': ', event, message.text, reading)}.`
      : '',
    isFirstContact && !asked.includes(selfDescription(reading)) ? selfDescription(reading) : '',
    asked.length === 0 ? 'Ask me who is here, what was said last, how many messages there are, or what I am.' : '',
  ]
  return sentences.filter((sentence) => sentence !== '').join(' ')
}

/** Returns the report about a plan, a trigger by a service, or a late result. */
export function reportOf(event: ReportedEvent, { calls }: DemoReading): string {
  const [subject, what] = REPORTS[event.type]
  return `${subject} "${event.name}" ${what}: ${shortened(event.text, 400)} ${ofResults(calls)}`.trim()
}

const REPORTS = {
  plan: ['The plan', 'is due'],
  service: ['The service', 'called me'],
  toolResult: ['The tool', 'has answered'],
} as const

/** Describes the demo model and how to replace it. */
function selfDescription({ name }: Pick<DemoReading, 'name'>): string {
  return `I am ${name}, run by Parley's built-in demo model: it is scripted, so it needs no key and does not think. To let me think, start the server with the key of a model provider, such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or add a provider in the console under Models, and give me one of its models.`
}

const QUESTIONS: { pattern: RegExp; answer: (event: MessageEvent, reading: DemoReading) => string }[] = [
  {
    pattern: /\bwho('s|’s| is| are| else is)? (here|around|in (this|the) (space|room))|\bmembers\b|\bparticipants\b/i,
    answer: whoIsHere,
  },
  {
    pattern:
      /\b(said|say|wrote|written|happened) (last|before|previously|so far)|\blast (message|thing)|\bdid I miss|\bsumm(ary|ari[sz]e)/i,
    answer: whatWasSaidLast,
  },
  { pattern: /\bhow many messages|\bmessage count|\bnumber of messages/i, answer: howManyMessages },
  { pattern: /\bwhat('s|’s| is)? (the )?(time|date|day)|\bwhat day\b|\bwhen (did|was)\b/i, answer: whenItWas },
  {
    pattern:
      /\b(who|what) are you|\bdemo\b|\bapi.?key\b|\bwhat (is|'s) your (name|model)|\bare you (a |an )?(ai|bot|human|real)|\bwhich model/i,
    answer: (_, reading) => selfDescription(reading),
  },
  { pattern: /\bremember\b/i, answer: whatIsRemembered },
]

function whoIsHere({ spaceId }: MessageEvent, { spaces }: DemoReading): string {
  const space = spaces.find(({ id }) => id === spaceId)
  if (space === undefined) return 'I cannot see who is here.'
  const members = space.members.map(({ name, kind }) => `${name} (${kind})`)
  const others = members.length === 0 ? 'nobody but me' : listed([...members, 'me (agent)'])
  return `In "${space.name}" there ${members.length === 0 ? 'is' : 'are'} ${others}.`
}

function whatWasSaidLast(event: MessageEvent, reading: DemoReading): string {
  const { message } = event
  const earlier = historyOf(reading).filter((other) => !isSame(other, message))
  const last = earlier.at(-1)
  if (last === undefined) return 'I see no message before yours.'
  const who = last.from === reading.name ? 'I' : last.from
  return `The last message before yours: ${who} wrote${quotation(' ', event, last.text, reading) || ' to an agent'}.`
}

function howManyMessages(_: MessageEvent, reading: DemoReading): string {
  const total = entered(reading)?.totalMessages
  const count = typeof total === 'number' ? total : historyOf(reading).length
  return `I see ${count} ${count === 1 ? 'message' : 'messages'} here.`
}

function whenItWas({ message }: MessageEvent, reading: DemoReading): string {
  const at = message.at ?? historyOf(reading).findLast((other) => isSame(other, message))?.at
  const time = at === null || at === undefined ? Number.NaN : Date.parse(at)
  if (Number.isNaN(time)) return 'I cannot see when your message came.'
  const format = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' })
  return `Your message came on ${format.format(time)} UTC.`
}

function whatIsRemembered({ message }: MessageEvent, { calls, memories }: DemoReading): string {
  const fact = factToRemember(message.text)
  if (fact !== null) {
    const call = calls.find(({ toolName }) => SET_MEMORIES.includes(toolName))
    if (call === undefined) return 'I have no memory to keep that in.'
    return isFailure(call) ? 'I could not remember that.' : `I will remember that ${withoutFullStop(fact)}.`
  }
  return memories.length === 0 ? 'I remember nothing yet.' : `I remember: ${memories.join('; ')}.`
}

/** The tools that store memories, in both toolsets. */
export const SET_MEMORIES = ['set_memories', 'setMemories']

/** Returns the fact that a message asks the agent to remember; null if there is none. */
export function factToRemember(text: string): string | null {
  const match = /(?:^|[.!?,;:]\s*|\bplease\s+|\band\s+)remember(?:\s+that)?[:,]?\s+([^\n]+)/i.exec(text)
  return match?.[1]?.trim() || null
}

/** Returns a sentence for each call of a custom tool. */
function ofResults(calls: DemoCall[]): string {
  const own = calls.filter(({ toolName, output }) => !BUILT_IN.has(toolName) && output !== undefined)
  return own.map((call) => `${call.toolName} ${outcomeOf(call)} `).join('')
}

function outcomeOf(call: DemoCall): string {
  const { output } = call
  if (typeof output === 'object' && output !== null && 'status' in output && output.status === 'pending') {
    return 'is waiting for an answer.'
  }
  return `${isFailure(call) ? 'failed' : 'answered'}: ${shortened(JSON.stringify(output), 300)}.`
}

/** The names of built-in tools. Answers do not mention the results of these tools. */
export const BUILT_IN: ReadonlySet<string> = new Set([
  'enter_space',
  'send_message',
  'read_messages',
  'get_my_runs',
  'stop_run',
  'readSpaceMessages',
  'send_file',
  'sendFile',
  'read_file',
  'readFile',
  'search_messages',
  'searchMessages',
  'edit_message',
  'editMessage',
  'delete_message',
  'deleteMessage',
  'react',
  'sendSpaceMessage',
  'getMyRuns',
  'stopRun',
  'delegateToAgent',
  'mentionAgent',
  'delegate',
  'skip',
  ...['memories', 'goals', 'plans'].flatMap((noun) => [`set_${noun}`, `get_${noun}`, `delete_${noun}`]),
  ...['Memories', 'Goals', 'Plans'].flatMap((noun) => [`set${noun}`, `get${noun}`, `delete${noun}`]),
])

/** Returns the messages that the model can see: those in the prompt, or those that it got when it entered the space. */
function historyOf(reading: DemoReading): DemoMessage[] {
  const { history } = entered(reading) ?? {}
  if (!Array.isArray(history) || history.length <= reading.recent.length) return reading.recent
  return history.map((entry) => ({
    id: entry?.id ?? null,
    from: String(entry?.sender ?? entry?.from ?? 'somebody'),
    kind: (entry?.type ?? entry?.kind) === 'agent' ? 'agent' : 'human',
    at: entry?.timestamp ?? entry?.at ?? null,
    text: String(entry?.text ?? ''),
  }))
}

function entered({ calls }: DemoReading): { history?: unknown; totalMessages?: unknown } | null {
  const call = calls.findLast(({ toolName, output }) => toolName === 'enter_space' && typeof output === 'object')
  return (call?.output ?? null) as { history?: unknown; totalMessages?: unknown } | null
}

function isSame(one: DemoMessage, other: DemoMessage): boolean {
  return one.id !== null && other.id !== null ? one.id === other.id : one.from === other.from && one.text === other.text
}

/** Returns the name of a space, or `the space` if the prompt does not contain it. */
export function nameOfSpace(spaces: DemoSpace[], id: string | null): string {
  return spaces.find((space) => space.id === id)?.name ?? 'the space'
}

/**
 * Returns `before` and a quotation of a text. Returns an empty text if the text contains the name of another agent in
 * the space, because that agent would treat the quotation as addressed to it.
 */
function quotation(before: string, { spaceId }: MessageEvent, text: string, { spaces }: DemoReading): string {
  const agents = spaces.find(({ id }) => id === spaceId)?.members.filter(({ kind }) => kind === 'agent') ?? []
  const said = text.toLowerCase()
  const isCall = agents.some(({ name }) => said.includes(name.toLowerCase()))
  return isCall ? '' : before + quoted(text)
}

/** Matches a file as the prompt shows it (`describeFile` in spaces/readable-text.ts). */
const FILE_MARK = /\[file "((?:[^"\\]|\\.)*)", [^\s\]]+, fil_\w+\]/g

/** Returns a quotation of a text, followed by the names of its files. */
function quoted(text: string): string {
  const files = [...text.matchAll(FILE_MARK)].map(([, name = '']) => `the file ${name.replaceAll(/\\(.)/g, '$1')}`)
  const words = text.replaceAll(FILE_MARK, '').trim()
  const quote = words === '' && files.length > 0 ? '' : `"${shortened(words, 160)}"`
  const named = shortened(listed(files), 160)
  return quote !== '' && named !== '' ? `${quote} with ${named}` : quote + named
}

function shortened(text: string, length: number): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length <= length
    ? line
    : `${line
        .slice(0, length - 1)
        .toWellFormed()
        .replace(/\ufffd$/, '')}…`
}

function withoutFullStop(text: string): string {
  return text.replace(/[.!]+$/, '')
}

function listed(items: string[]): string {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}
