import { createActivity } from './activity.ts'
import type { Api } from './api.ts'
import { createComposer } from './composer.ts'
import { button, element, notify } from './dom.ts'
import { createMessageView, type MessageView } from './message-view.ts'
import { EARLIER_MESSAGES, MARK_READ, SPACE_MESSAGES } from './operations.ts'
import { payloadOf, wordsOf } from './refusal.ts'
import { addMessages, apply, createTranscript, inOrder, type Message } from './transcript.ts'

export interface SpaceViewOptions {
  api: Api
  spaceId: string
  /** Whether the viewer is a person, who can speak and has read something. */
  isHuman: boolean
}

/** A space on the page, live until it is closed. */
export interface SpaceView {
  element: HTMLElement
  close(): void
}

const fail = (error: unknown) => notify(wordsOf(error))
const NEAR_THE_END_PX = 80

export function createSpaceView({ api, spaceId, isHuman }: SpaceViewOptions): SpaceView {
  const transcript = createTranscript()
  const title = element('h2', { tabindex: '-1' })
  const about = element('p', { class: 'about' })
  const messages = element('ol')
  const scroller = element('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Conversation' })
  const earlier = button('Earlier messages', loadEarlier, fail)
  const composer = createComposer(api, spaceId, isHuman)
  const activity = createActivity(api, spaceId)
  const reading = createReading(api, spaceId)
  const markRead = button('Mark as read', async () => reading.mark(inOrder(transcript).at(-1)), fail)
  const views = new Map<string, MessageView>()
  scroller.append(earlier, element('div', { role: 'log', 'aria-label': 'Messages' }, messages))
  const bar = element('div', { class: 'space-bar' }, title, ...(isHuman ? [markRead] : []))
  const made = element('section', { class: 'space', 'aria-label': 'Space' }, bar, about, activity.element, scroller)
  made.append(composer.element)

  const isAtTheEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_THE_END_PX

  function showSpace(): void {
    const { space } = transcript
    if (space === null) return
    title.textContent = space.name
    if (document.activeElement === document.body) title.focus({ preventScroll: true })
    const who = space.members.map(({ name, kind }) => (kind === 'AGENT' ? `${name} (agent)` : name)).join(', ')
    about.textContent = [space.description, who, ROUTING_WORDS[space.routing]].filter(Boolean).join(' · ')
    const agents = space.members.filter(({ kind }) => kind === 'AGENT')
    composer.offer(agents)
    activity.keep(agents.map(({ id }) => id))
  }

  function showMessage(message: Message): void {
    const known = views.get(message.id)
    known?.show(message)
    if (known) return
    const view = createMessageView(api, message)
    views.set(message.id, view)
    const after = inOrder(transcript).find(({ seq, id }) => seq > message.seq && views.has(id))
    messages.insertBefore(view.element, (after && views.get(after.id)?.element) ?? null)
  }

  function showAll(): void {
    earlier.hidden = !transcript.hasEarlier
    for (const [id, { element: gone }] of views) {
      if (transcript.messages.has(id)) continue
      gone.remove()
      views.delete(id)
    }
    for (const message of inOrder(transcript)) showMessage(message)
  }

  async function loadEarlier(): Promise<void> {
    const [first] = inOrder(transcript)
    if (first === undefined) return
    const { space } = await api.run(EARLIER_MESSAGES, { spaceId, before: first.id })
    const heightBefore = scroller.scrollHeight
    if (space) addMessages(transcript, space.messages)
    showAll()
    scroller.scrollTop += scroller.scrollHeight - heightBefore
  }

  // The cursor moves on with each event: what is asked for after a reconnect is what came since.
  const variables: { spaceId: string; after: string | null } = { spaceId, after: null }
  const stop = api.watch(SPACE_MESSAGES, variables, {
    onData({ spaceMessages: event }) {
      const follows = isAtTheEnd()
      variables.after = event.cursor
      const change = apply(transcript, event)
      if (change.type === 'all') showAll()
      if (change.type === 'message') showMessage(change.message)
      if (change.type === 'all' || change.type === 'space') showSpace()
      if (!follows && change.type !== 'all') return
      scroller.scrollTop = scroller.scrollHeight
      if (isHuman && !document.hidden) reading.mark(inOrder(transcript).at(-1)).catch(fail)
    },
    onEnd(error) {
      if (error !== null) fail(error)
      about.textContent = 'This is no longer live. Open the space again to try.'
    },
  })

  return {
    element: made,
    close() {
      stop()
      activity.close()
    },
  }
}

const ROUTING_WORDS: Record<string, string> = {
  BROADCAST: 'every agent hears everything',
  ADMIN: 'people speak to the admin agent',
  MENTION_CHAIN: 'one agent at a time',
}

/** How far a person has read: said once for each message that is whole, one after the other. */
function createReading(api: Api, spaceId: string): { mark(message: Message | undefined): Promise<void> } {
  let markedSeq = 0
  return {
    async mark(message) {
      if (message === undefined || message.seq <= markedSeq || message.status === 'STREAMING') return
      const before = markedSeq
      markedSeq = message.seq
      try {
        const { markRead } = await api.run(MARK_READ, { spaceId, messageId: message.id })
        payloadOf(markRead, 'MarkReadPayload')
      } catch (error) {
        markedSeq = before
        throw error
      }
    },
  }
}
