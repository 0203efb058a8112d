import type { Api } from './api.ts'
import { element, form, labelled, notify } from './dom.ts'
import { SEND_MESSAGE } from './operations.ts'
import { payloadOf, wordsOf } from './refusal.ts'

/** Where a person writes. */
export interface Composer {
  element: HTMLElement
  /** Who can be mentioned. */
  offer(agents: { id: string; name: string }[]): void
}

const NOBODY = ''

export function createComposer(api: Api, spaceId: string, isHuman: boolean): Composer {
  if (!isHuman) {
    const words = 'An operator sees everything and speaks as nobody. Go on as a person to write here.'
    return { element: element('p', { class: 'about' }, words), offer: () => {} }
  }
  const text = element('textarea', { rows: '2', required: true, maxlength: '32000', placeholder: 'Enter sends' })
  const mention = element('select')
  // The same for as long as the same is tried: a message whose answer was lost is not posted twice.
  let attempt = { content: '', idempotencyKey: '' }

  async function onSubmit(): Promise<void> {
    const mentionedAgentId = mention.value === NOBODY ? null : mention.value
    const content = JSON.stringify([text.value, mentionedAgentId])
    if (attempt.content !== content) attempt = { content, idempotencyKey: newKey() }
    const { idempotencyKey } = attempt
    const sent = text.value
    const input = { spaceId, text: sent, mentionedAgentId, idempotencyKey }
    const { sendMessage } = await api.run(SEND_MESSAGE, { input })
    payloadOf(sendMessage, 'SendMessagePayload')
    attempt = { content: '', idempotencyKey: '' }
    if (text.value === sent) text.value = ''
    text.focus()
  }

  const made = form(
    { label: 'Write', onSubmit, onError: (error) => notify(wordsOf(error)) },
    labelled('Message', text),
    labelled('To', mention),
    element('button', {}, 'Send'),
  )
  made.classList.add('composer')
  text.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
    event.preventDefault()
    made.requestSubmit()
  })

  return {
    element: made,
    offer(agents) {
      const chosen = mention.value
      const everybody = element('option', { value: NOBODY }, 'everybody')
      mention.replaceChildren(everybody, ...agents.map(({ id, name }) => element('option', { value: id }, name)))
      mention.value = agents.some(({ id }) => id === chosen) ? chosen : NOBODY
    },
  }
}

/** `crypto.randomUUID` is there on secure origins only. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((number) => number.toString(36)).join('-')
}
