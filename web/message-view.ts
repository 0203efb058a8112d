import type { ConsoleCallFragment } from '../generated/graphql.ts'
import type { Api } from './api.ts'
import { element, form, labelled, notify } from './dom.ts'
import { OUTCOMES, SUBMIT_TOOL_RESULT } from './operations.ts'
import { payloadOf, wordsOf } from './refusal.ts'
import type { Message, Part } from './transcript.ts'

/** A message on the page. */
export interface MessageView {
  element: HTMLLIElement
  /** Shows it as it is now. What did not change stays, with what is being typed in it. */
  show(message: Message): void
}

const STATUS_WORDS: Record<string, string> = {
  STREAMING: 'is writing…',
  REQUIRES_ACTION: 'needs an answer',
  COMPLETE: '',
  INTERRUPTED: 'was interrupted',
}

const fail = (error: unknown) => notify(wordsOf(error))

export function createMessageView(api: Api, message: Message): MessageView {
  const { id, sender, createdAt, mentionedAgent } = message
  const status = element('span', { class: 'status' })
  const body = element('div', { class: 'parts' })
  const to = mentionedAgent === null ? '' : ` to ${mentionedAgent.name}`
  const header = element(
    'header',
    {},
    element('strong', {}, sender.name),
    element('span', { class: 'kind' }, sender.kind === 'AGENT' ? 'agent' : ''),
    to,
    element('time', { datetime: createdAt }, new Date(createdAt).toLocaleTimeString()),
    status,
  )
  const made = element('li', { class: `message ${sender.kind.toLowerCase()}`, 'data-id': id }, header, body)
  if (sender.kind === 'HUMAN') made.append(outcomesOf(api, id))
  const shown = new Map<string, { as: string; element: HTMLElement }>()

  function show(now: Message): void {
    made.dataset['status'] = now.status
    made.setAttribute('aria-busy', String(now.status === 'STREAMING'))
    status.textContent = STATUS_WORDS[now.status] ?? now.status
    const parts = now.parts.map((part) => {
      const as = JSON.stringify(part)
      const before = shown.get(part.id)
      if (before?.as === as) return before.element
      const next = part.__typename === 'TextPart' && before ? withText(before.element, part.text) : partOf(api, part)
      shown.set(part.id, { as, element: next })
      return next
    })
    const isAsItWas = parts.length === body.children.length && parts.every((part, at) => part === body.children[at])
    if (!isAsItWas) body.replaceChildren(...parts)
  }

  show(message)
  return { element: made, show }
}

function withText(paragraph: HTMLElement, text: string): HTMLElement {
  paragraph.textContent = text
  return paragraph
}

function partOf(api: Api, part: Part): HTMLElement {
  if (part.__typename === 'TextPart') return element('p', { class: 'text' }, part.text)
  return callOf(api, part.toolCall)
}

/** A tool call: its name, its status, what went in and came out, and where it waits, a field for the answer. */
function callOf(api: Api, call: ConsoleCallFragment): HTMLElement {
  const { toolName, status, input, output, error } = call
  const made = element(
    'section',
    { class: 'call', 'aria-label': `Tool call ${toolName}` },
    element('header', {}, element('code', {}, toolName), element('span', { class: 'status' }, status.toLowerCase())),
  )
  if (input !== null) made.append(json('Input', input))
  if (output !== null) made.append(json('Output', output))
  if (error !== null) made.append(element('p', { class: 'failure' }, error))
  if (status === 'WAITING') made.append(answerForm(api, call))
  return made
}

function json(label: string, value: unknown): HTMLElement {
  const text = JSON.stringify(value, null, 2)
  return element('details', { open: text.length < 400 }, element('summary', {}, label), element('pre', {}, text))
}

function answerForm(api: Api, { id, toolName }: ConsoleCallFragment): HTMLElement {
  const field = element('textarea', { rows: '3', spellcheck: 'false', required: true })
  field.value = '{ "approved": true }'
  async function onSubmit(): Promise<void> {
    const { submitToolResult } = await api.run(SUBMIT_TOOL_RESULT, { toolCallId: id, result: parsed(field.value) })
    payloadOf(submitToolResult, 'SubmitToolResultPayload')
  }
  return form(
    { label: `Answer ${toolName}`, onSubmit, onError: fail },
    labelled('Result, as JSON', field),
    element('button', {}, 'Submit'),
  )
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('The result must be JSON: a text stands in double quotes.')
  }
}

const OUTCOME_WORDS: Record<string, string> = {
  RUN: 'woke',
  INBOX: 'has it in the inbox',
  SKIPPED: 'read it and had nothing to say',
  NOT_ROUTED: 'was not chosen by the routing',
  LOOP_LIMIT: 'was not woken: the chain had reached its limit',
  DUPLICATE: 'had been woken by it before',
}

/** Who woke from a message and who did not: asked for each time it is opened. */
function outcomesOf(api: Api, messageId: string): HTMLElement {
  const list = element('ul')
  const made = element('details', { class: 'outcomes' }, element('summary', {}, 'Who woke?'), list)
  async function load(): Promise<void> {
    const { message } = await api.run(OUTCOMES, { messageId })
    const lines = (message?.outcomes ?? []).map(({ agent, kind, reason, run }) => {
      const words = `${agent.name} ${OUTCOME_WORDS[kind] ?? kind}`
      return element('li', {}, [words, run && `(${run.status.toLowerCase()})`, reason].filter(Boolean).join(' '))
    })
    list.replaceChildren(...(lines.length > 0 ? lines : [element('li', {}, 'There was no agent to wake.')]))
  }
  made.addEventListener('toggle', () => {
    if (made.open) load().catch(fail)
  })
  return made
}
