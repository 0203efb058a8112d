import { editOfAnswer, gestureCalls, threadOfAnswer } from './demo-gestures.ts'
import { plausibleInput } from './demo-input.ts'
import { type DemoEvent, type DemoReading, type DemoSpace, isFailure } from './demo-reading.ts'
import { answerTo, BUILT_IN, factToRemember, nameOfSpace, reportOf, SET_MEMORIES } from './demo-replies.ts'
import { isCue, sceneCalls, sceneText, silenceOf } from './demo-scene.ts'

/** The result of a step of the demo model: tool calls, or a closing text that only admins see. */
export type DemoStep = { type: 'calls'; calls: { toolName: string; input: object }[] } | { type: 'text'; text: string }

/**
 * Decides the next step from the prompt alone, so that a run continues in the same way if another process resumes it.
 *
 * The model handles the events that need an answer, in order. It enters the event's space unless that space is active,
 * calls the tools that the message asks for, and posts a message. Then it ends. A message of another agent needs an
 * answer only if it is addressed to this agent; otherwise, several demo agents would reply to each other forever.
 */
export function decideDemoStep(reading: DemoReading): DemoStep {
  const { events, calls, tools, toolChoice } = reading
  if (toolChoice === 'none') return closing(reading)
  const wanted = events.filter((event) => wantsAnswer(event, reading))
  if (wanted.length === 0 && calls.length === 0 && tools.has('skip')) {
    const reason = reading.role === null ? 'Nothing here is addressed to me.' : silenceOf(reading.role)
    return { type: 'calls', calls: [{ toolName: 'skip', input: { reason } }] }
  }
  const sendTool = ['send_message', 'sendSpaceMessage'].find((name) => tools.has(name))
  const sent = calls.filter(({ toolName }) => toolName === 'send_message' || toolName === 'sendSpaceMessage').length
  const answered = wanted[sent - 1]
  const edit = answered === undefined ? null : editOfAnswer(answered, reading)
  if (edit !== null) return { type: 'calls', calls: [edit] }
  const event = wanted[sent]
  if (event !== undefined && sendTool !== undefined) {
    const next = stepFor(event, reading, sendTool)
    if (next !== null) return { type: 'calls', calls: next }
  }
  if (toolChoice === 'required') return { type: 'calls', calls: [forcedCall(reading)] }
  return closing(reading)
}

/** Returns the calls that handle one event; null if the model cannot handle it. */
function stepFor(
  event: DemoEvent,
  reading: DemoReading,
  sendTool: string,
): { toolName: string; input: object }[] | null {
  const spaceId = spaceFor(event, reading)
  if (spaceId === null) return null
  if (sendTool === 'send_message' && activeSpaceOf(reading) !== spaceId) {
    const isRefused = reading.calls.some(
      (call) => call.toolName === 'enter_space' && call.input.spaceId === spaceId && isFailure(call),
    )
    if (isRefused || !reading.tools.has('enter_space')) return null
    return [{ toolName: 'enter_space', input: { spaceId } }]
  }
  const asked = askedCalls(event, spaceId, reading).filter(
    ({ toolName }) => !reading.calls.some((call) => call.toolName === toolName),
  )
  if (asked.length > 0) return asked
  const text =
    event.type === 'message' ? (sceneText(reading, event) ?? answerTo(event, reading)) : reportOf(event, reading)
  const place = event.type === 'message' ? threadOfAnswer(event) : {}
  return [{ toolName: sendTool, input: { ...(sendTool === 'send_message' ? {} : { spaceId }), text, ...place } }]
}

function wantsAnswer(event: DemoEvent, { name, spaces, tools, role }: DemoReading): boolean {
  if (event.type !== 'message') return true
  const { message, mentioned, spaceId } = event
  if (mentioned || isAddressed(message.text, name)) return true
  // A message in which a person addresses another agent is skipped. Without the tool `skip`, the model answers it
  // anyway.
  const others = spaces.find(({ id }) => id === spaceId)?.members ?? []
  const meansAnother = others.some((member) => member.kind === 'agent' && isAddressed(message.text, member.name))
  if (role !== null) return isCue(role, event, meansAnother)
  if (message.kind === 'agent') return false
  return !(tools.has('skip') && meansAnother)
}

/** Whether a text addresses the name: `@Ada`, or "Ada" at the beginning of a sentence or after a greeting. */
function isAddressed(text: string, name: string): boolean {
  const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(
    `(@|(^|[.!?\\n])\\s*|\\b(hey|hi|hello|dear|ok|thanks|please)[, ]+)${escaped}(?![\\p{L}\\p{N}])`,
    'iu',
  ).test(text)
}

function spaceFor(event: DemoEvent, { spaces }: DemoReading): string | null {
  if (event.type === 'message') return event.spaceId ?? spaces.find(({ active }) => active)?.id ?? null
  const named = spaces.find(({ name }) => name !== '' && event.text.toLowerCase().includes(name.toLowerCase()))
  return (named ?? firstSpace(spaces))?.id ?? null
}

function firstSpace(spaces: DemoSpace[]): DemoSpace | undefined {
  return spaces.find(({ active }) => active) ?? spaces[0]
}

/**
 * Returns the space that the run entered last. If it has entered none, returns the active space from the instructions.
 */
function activeSpaceOf({ calls, spaces }: DemoReading): string | null {
  const entered = calls.findLast(
    (call) => call.toolName === 'enter_space' && call.output !== undefined && !isFailure(call),
  )
  if (typeof entered?.input.spaceId === 'string') return entered.input.spaceId
  return spaces.find(({ active }) => active)?.id ?? null
}

/**
 * Returns calls to the tools that an event mentions. For a fact to remember, also returns a call to the memory tool.
 */
function askedCalls(event: DemoEvent, spaceId: string, reading: DemoReading): { toolName: string; input: object }[] {
  const { tools } = reading
  const text = event.type === 'message' ? event.message.text : event.text
  if (event.type === 'toolResult') return []
  const scripted = event.type === 'message' ? sceneCalls(reading, event) : null
  if (scripted !== null) return scripted
  const fact = event.type === 'message' ? factToRemember(text) : null
  const memoryTool = SET_MEMORIES.find((name) => tools.has(name))
  const gestures = event.type === 'message' ? gestureCalls(event, spaceId, reading) : []
  const named = [...tools].flatMap(([toolName, schema]) =>
    isAskedFor(toolName, text) ? [{ toolName, input: plausibleInput(schema, { text, spaceId }) }] : [],
  )
  const asked = [...gestures, ...named]
  if (fact === null || memoryTool === undefined) return asked
  const key =
    fact
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu)
      ?.slice(0, 4)
      .join('_') ?? 'note'
  const values = { key, name: key, value: fact, content: fact }
  return [
    { toolName: memoryTool, input: plausibleInput(tools.get(memoryTool) ?? {}, { text: fact, spaceId, values }) },
    ...asked,
  ]
}

/** Built-in tools that only read. They are called when a message mentions them. */
const LOOKING = new Set(['get_my_runs', 'getMyRuns', 'read_messages', 'readSpaceMessages', 'get_plans', 'getPlans'])

function isAskedFor(toolName: string, text: string): boolean {
  if (BUILT_IN.has(toolName) && !LOOKING.has(toolName)) return false
  const said = ` ${words(text)} `
  // The tool of an MCP server is named `<server>__<tool>`, but people write only the second part.
  return [toolName, toolName.split('__').at(-1) ?? toolName].some((name) => said.includes(` ${words(name)} `))
}

/** Returns the words of a name: `get_weather`, `getWeather` and "Get weather" all become "get weather". */
function words(text: string): string {
  return text
    .replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
}

/**
 * Returns a call for a step in which the model must call a tool although none is needed. Prefers a tool that only
 * reads.
 */
function forcedCall({ tools, spaces }: DemoReading): { toolName: string; input: object } {
  const toolName = [...LOOKING].find((name) => tools.has(name)) ?? [...tools.keys()][0] ?? 'skip'
  const spaceId = firstSpace(spaces)?.id ?? null
  return { toolName, input: plausibleInput(tools.get(toolName) ?? {}, { text: 'demo', spaceId }) }
}

/** Returns the closing line, which becomes the summary of the run. */
function closing(reading: DemoReading): DemoStep {
  const { calls, events, spaces } = reading
  const failed = calls.find(isFailure)
  const sent = calls.filter(({ toolName }) => toolName === 'send_message' || toolName === 'sendSpaceMessage')
  const [first] = events
  const subject =
    first === undefined
      ? 'a prompt without a trigger'
      : first.type === 'message'
        ? `a message of ${first.message.from}`
        : `${first.type} "${first.name}"`
  const about = events.length > 1 ? `${events.length} events` : subject
  if (sent.length === 0) {
    const why = failed === undefined ? '' : `; ${failed.toolName} failed`
    return {
      type: 'text',
      text: `I read ${about} and said nothing: it is not addressed to me, or I have nowhere to answer${why}.`,
    }
  }
  const where = typeof sent[0]?.input.spaceId === 'string' ? sent[0].input.spaceId : activeSpaceOf(reading)
  const problem = failed === undefined ? '' : ` ${failed.toolName} failed.`
  return { type: 'text', text: `I answered ${about} in "${nameOfSpace(spaces, where)}".${problem}` }
}
