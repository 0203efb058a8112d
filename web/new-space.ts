import type { Routing } from '../generated/graphql.ts'
import type { Api } from './api.ts'
import { element, form, labelled, notify } from './dom.ts'
import { AGENTS, CREATE_SPACE } from './operations.ts'
import { payloadOf, wordsOf } from './refusal.ts'

const fail = (error: unknown) => notify(wordsOf(error))

const ROUTINGS: { value: Routing; label: string }[] = [
  { value: 'BROADCAST', label: 'every agent hears everything' },
  { value: 'MENTION_CHAIN', label: 'one agent at a time, who may hand on' },
  { value: 'ADMIN', label: 'the first chosen agent, who may call others' },
]

/** A form for a new space with chosen agents. */
export function createNewSpace(api: Api, onCreated: (spaceId: string) => void): HTMLElement {
  const name = element('input', { required: true, maxlength: '200' })
  const routing = element('select', {}, ...ROUTINGS.map(({ value, label }) => element('option', { value }, label)))
  const agents = element('fieldset', {}, element('legend', {}, 'Agents'))

  async function onSubmit(): Promise<void> {
    const chosen = [...agents.querySelectorAll<HTMLInputElement>('input:checked')].map(({ value }) => value)
    const kind = routing.value as Routing
    const admin = kind === 'ADMIN' && chosen[0] !== undefined ? { adminAgentId: chosen[0] } : {}
    const input = { name: name.value, routing: kind, memberIds: chosen, ...admin }
    const { createSpace } = await api.run(CREATE_SPACE, { input })
    const { space } = payloadOf(createSpace, 'CreateSpacePayload')
    name.value = ''
    made.open = false
    onCreated(space.id)
  }

  async function listAgents(): Promise<void> {
    const { agents: page } = await api.run(AGENTS, {})
    const choices = page.edges.map(({ node: agent }) => {
      const box = element('input', { type: 'checkbox', value: agent.id })
      return element('label', { class: 'choice', title: agent.description ?? '' }, box, agent.name)
    })
    agents.replaceChildren(element('legend', {}, 'Agents'), ...choices)
  }

  const fields = form(
    { label: 'New space', onSubmit, onError: fail },
    labelled('Name', name),
    agents,
    labelled('Who wakes', routing),
    element('button', {}, 'Create'),
  )
  const made = element('details', {}, element('summary', {}, 'New space'), fields)
  made.addEventListener('toggle', () => {
    if (made.open) listAgents().catch(fail)
  })
  return made
}
