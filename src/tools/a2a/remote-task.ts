import { cut, isObject } from '../../lib/json.ts'
import { LONGEST_MESSAGE } from '../../lib/validate.ts'

/** A task of an agent on another server (A2A 1.0), with the text that makes up its answer. */
export interface RemoteTask {
  id: string
  contextId: string | null
  state: RemoteState
  /** The text of the task's status. */
  status: string
  /** The output by artifact, in the order in which the artifacts began. */
  artifacts: readonly { id: string; text: string }[]
}

const STATES = [
  'SUBMITTED',
  'WORKING',
  'COMPLETED',
  'FAILED',
  'CANCELED',
  'INPUT_REQUIRED',
  'REJECTED',
  'AUTH_REQUIRED',
] as const
export type RemoteState = (typeof STATES)[number]

const PREFIX = 'TASK_STATE_'
const LONGEST_ID = 500
const MOST_ARTIFACTS = 100
/**
 * The maximum length of a text. It is one character longer than a message may be, so that a text that was cut can
 * be recognized.
 */
const LONGEST_TEXT = LONGEST_MESSAGE + 1

/** Whether a task stays unchanged until another message is sent. */
export const isIdle = ({ state }: Pick<RemoteTask, 'state'>): boolean => state !== 'SUBMITTED' && state !== 'WORKING'

/** Whether the agent waits for the next message of the task. */
export const asksForInput = ({ state }: Pick<RemoteTask, 'state'>): boolean => state === 'INPUT_REQUIRED'

/** Returns an id from another server; null if the value cannot be an id. */
export const idIn = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' && value.length <= LONGEST_ID && !value.includes('\0') ? value : null

/**
 * Removes header values that the other server echoes. If a text was cut, also removes the beginning of a header
 * value at its end.
 */
export interface TextCleaning {
  clean(text: string): string
  /** Drops the end of an unfinished text if a header value may begin there. */
  trim(text: string): string
}

const NO_CLEANING: TextCleaning = { clean: (text) => text, trim: (text) => text }

/** Reads a task. Returns null if it has no id or no known state. */
export function readTask(value: unknown, cleaning: TextCleaning = NO_CLEANING): RemoteTask | null {
  if (!isObject(value)) return null
  const [id, state] = [idIn(value['id']), stateIn(value['status'])]
  if (id === null || state === null) return null
  const given = Array.isArray(value['artifacts']) ? value['artifacts'].slice(0, MOST_ARTIFACTS) : []
  const artifacts = bounded(
    given.flatMap((artifact) => artifactIn(artifact, cleaning) ?? []),
    cleaning,
  )
  return { id, contextId: idIn(value['contextId']), state, status: statusTextIn(value['status'], cleaning), artifacts }
}

/** Returns the task after an event of its stream. Events of other tasks and of unknown types change nothing. */
export function taskAfter(task: RemoteTask, event: unknown, cleaning: TextCleaning = NO_CLEANING): RemoteTask {
  if (!isObject(event)) return task
  const { task: whole, statusUpdate, artifactUpdate } = event
  const read = readTask(whole, cleaning)
  if (read !== null) return read.id === task.id ? read : task
  if (isObject(statusUpdate) && isOf(task, statusUpdate)) {
    const state = stateIn(statusUpdate['status'])
    return state === null ? task : { ...task, state, status: statusTextIn(statusUpdate['status'], cleaning) }
  }
  if (isObject(artifactUpdate) && isOf(task, artifactUpdate))
    return withArtifact(task, artifactUpdate['artifact'], artifactUpdate['append'] === true, cleaning)
  return task
}

const isOf = ({ id }: RemoteTask, { taskId }: Record<string, unknown>) => taskId === undefined || taskId === id

function withArtifact(task: RemoteTask, given: unknown, append: boolean, cleaning: TextCleaning): RemoteTask {
  const artifact = artifactIn(given, cleaning)
  if (artifact === null) return task
  const index = task.artifacts.findIndex(({ id }) => id === artifact.id)
  const before = task.artifacts[index]
  if (before === undefined)
    return task.artifacts.length >= MOST_ARTIFACTS
      ? task
      : { ...task, artifacts: bounded([...task.artifacts, artifact], cleaning) }
  const text = append ? cleaning.clean(before.text + artifact.text) : artifact.text
  return { ...task, artifacts: bounded(task.artifacts.with(index, { id: artifact.id, text }), cleaning) }
}

type Artifacts = RemoteTask['artifacts']

/** Cuts the artifacts to the maximum length of an answer, in total. */
function bounded(artifacts: Artifacts, { trim }: TextCleaning): Artifacts {
  let left = LONGEST_TEXT
  return artifacts.map((artifact) => {
    const isCut = artifact.text.length > left
    const text = isCut ? trim(cut(artifact.text, left)) : artifact.text
    left = isCut ? 0 : left - text.length
    return isCut ? { id: artifact.id, text } : artifact
  })
}

function artifactIn(value: unknown, cleaning: TextCleaning): Artifacts[number] | null {
  if (!isObject(value)) return null
  const id = idIn(value['artifactId'])
  return id === null ? null : { id, text: textOfParts(value['parts'], cleaning) }
}

/**
 * Returns a growing task in the form that may be shown. Drops the end of its text if a header value may begin
 * there.
 */
export function shownTask(task: RemoteTask, { trim }: TextCleaning): RemoteTask {
  const last = task.artifacts.at(-1)
  if (last === undefined || isIdle(task)) return task
  const text = trim(last.text)
  return text === last.text ? task : { ...task, artifacts: task.artifacts.with(-1, { id: last.id, text }) }
}

function stateIn(status: unknown): RemoteState | null {
  const name = isObject(status) ? String(status['state']) : ''
  return STATES.find((state) => name === `${PREFIX}${state}`) ?? null
}

function statusTextIn(status: unknown, cleaning: TextCleaning): string {
  const message = isObject(status) ? status['message'] : null
  return isObject(message) ? textOfParts(message['parts'], cleaning) : ''
}

/**
 * Joins the parts of a message or artifact. Texts are unchanged, data becomes JSON, and files become their name and
 * URL.
 */
export function textOfParts(parts: unknown, { clean, trim }: TextCleaning = NO_CLEANING): string {
  if (!Array.isArray(parts)) return ''
  let text = ''
  for (const part of parts) {
    text += textOfPart(part)
    if (text.length > LONGEST_TEXT) break
  }
  const cleaned = clean(text.replaceAll('\0', ''))
  return cleaned.length > LONGEST_TEXT ? trim(cut(cleaned, LONGEST_TEXT)) : cleaned
}

function textOfPart(part: unknown): string {
  if (!isObject(part)) return ''
  const { text, data, url, filename, mediaType } = part
  if (typeof text === 'string') return text
  if (data !== undefined) return `\n${JSON.stringify(data)}\n`
  const named = [filename, mediaType, url].filter((one) => typeof one === 'string')
  return named.length === 0 ? '' : `\n[${named.join(' ')}]\n`
}

/** Returns the agent's answer so far. The answer includes the status if it is a question or the only content. */
export function answerIn({ state, status, artifacts }: RemoteTask): string {
  const texts = artifacts.map(({ text }) => text).filter((text) => text.trim() !== '')
  const isAnswer = state === 'INPUT_REQUIRED' || (state === 'COMPLETED' && texts.length === 0)
  if (isAnswer && status.trim() !== '' && !texts.includes(status)) texts.push(status)
  return cut(texts.join('\n\n'), LONGEST_TEXT)
}
