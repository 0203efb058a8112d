import { cut } from '../lib/json.ts'
import { firstTextCall, hasTextCall } from '../lib/text-call.ts'
import { LONGEST_MESSAGE, messageCharacters } from '../lib/validate.ts'

/** The facts that determine where a run's closing text may be posted. */
export interface PlainTextRun {
  triggerType: string
  triggerSpaceId: string | null
  activeSpaceId: string | null
  /** The events of a think cycle; empty for other runs. */
  sources: readonly { type: string; spaceId: string | null }[]
}

/**
 * Returns the space in which to post the closing text of a run that has posted nothing. This is the active space or,
 * without one, the space of the trigger. The closing text of a think cycle is posted only if all its events are
 * messages of one space. Returns null if there is no such space, for example because a plan or service triggered the
 * run.
 */
export function placeOfPlainText({ triggerType, triggerSpaceId, activeSpaceId, sources }: PlainTextRun): string | null {
  if (triggerType === 'PLAN' || triggerType === 'SERVICE') return null
  if (triggerType !== 'INBOX') return activeSpaceId ?? triggerSpaceId
  if (!sources.some(({ type }) => type === 'SPACE_MESSAGE')) return null
  const [space = null] = sources.map(({ spaceId }) => spaceId)
  const isOne = sources.every(({ type, spaceId }) => type === 'SPACE_MESSAGE' && spaceId === space)
  return activeSpaceId ?? (isOne ? space : null)
}

/** Prepares the closing text for posting. Returns null if it cannot be posted. */
export function postablePlainText(closing: string | null): string | null {
  const text = cut(
    messageCharacters(closing ?? '')
      .toWellFormed()
      .trim(),
    LONGEST_MESSAGE,
  )
  return text === '' ? null : text
}

/** For a run that posted nothing, returns why its closing text was not posted, and what an admin can do about it. */
export function hintOn({ summary, plainText }: { summary: string; plainText: string }): string {
  if (hasTextCall(summary))
    return `The model wrote a tool call as text, and it was not executed: ${faultOfCall(summary)}`
  if (plainText === 'INTERNAL')
    return 'The model answered in plain text instead of calling a tool, so the answer was not posted. Set plainText to SPOKEN_IF_SILENT to post such answers.'
  return 'The closing text was not posted: the run had no space for it, or was not allowed to post there. The log has the reason.'
}

function faultOfCall(summary: string): string {
  const call = firstTextCall(summary)
  return call === null
    ? 'what it wrote is not a JSON object with name and arguments. Check the chat template of the model server.'
    : `there was no tool ${call.name} at this step, or the provider is not local. Check the tool template of the model server.`
}
