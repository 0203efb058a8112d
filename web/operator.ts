import type { Api } from './api.ts'
import { button, element, form, labelled, notify } from './dom.ts'
import { CREATE_AGENT, CREATE_HUMAN, CREATE_SPACE, CREATE_TOKEN } from './operations.ts'
import { payloadOf, wordsOf } from './refusal.ts'

const fail = (error: unknown) => notify(wordsOf(error))

const HOST = {
  name: 'Iris',
  instructions: 'You are the host of this space. Greet people by name and answer in two or three sentences.',
  model: 'demo',
}

/** What an operator can do: try it all at once, or make people and agents one by one. */
export function createOperatorPanel(api: Api, goOn: (token: string, spaceId?: string) => Promise<void>): HTMLElement {
  async function createHuman(name: string): Promise<{ id: string; token: string }> {
    const { createHuman: created } = await api.run(CREATE_HUMAN, { name })
    const { human } = payloadOf(created, 'CreateHumanPayload')
    const { createAccessToken } = await api.run(CREATE_TOKEN, { humanId: human.id })
    return { id: human.id, token: payloadOf(createAccessToken, 'CreateAccessTokenPayload').secret }
  }

  async function createAgent(agent: { name: string; instructions: string; model: string | null }) {
    const { createAgent: created } = await api.run(CREATE_AGENT, agent)
    return payloadOf(created, 'CreateAgentPayload').agent
  }

  async function tryIt(): Promise<void> {
    const [ada, iris] = await Promise.all([createHuman('Ada'), createAgent(HOST)])
    const input = { name: 'Kitchen', memberIds: [ada.id, iris.id] }
    const { createSpace } = await api.run(CREATE_SPACE, { input })
    await goOn(ada.token, payloadOf(createSpace, 'CreateSpacePayload').space.id)
  }

  const start = button('Try it', tryIt, fail)
  start.className = 'primary'
  return element(
    'section',
    { class: 'operator', 'aria-label': 'Operator' },
    element('h2', {}, 'Begin'),
    element('p', {}, 'Makes a person, Ada, a demo agent, Iris, and a space with both, and goes on as Ada.'),
    start,
    personForm(async (name) => goOn((await createHuman(name)).token)),
    agentForm(createAgent),
  )
}

function personForm(onCreate: (name: string) => Promise<void>): HTMLElement {
  const name = element('input', { required: true, maxlength: '200' })
  return form(
    { label: 'New person', onSubmit: () => onCreate(name.value), onError: fail },
    element('h3', {}, 'A new person'),
    labelled('Name', name),
    element('button', {}, 'Create, and go on as them'),
  )
}

function agentForm(
  onCreate: (agent: {
    name: string
    instructions: string
    model: string | null
  }) => Promise<{ name: string; model: string }>,
): HTMLElement {
  const name = element('input', { required: true, maxlength: '200' })
  const instructions = element('textarea', { rows: '3', required: true })
  const model = element('input', { placeholder: "the server's default" })
  const done = element('p', { role: 'status' })
  async function onSubmit(): Promise<void> {
    const input = { name: name.value, instructions: instructions.value, model: model.value.trim() || null }
    const agent = await onCreate(input)
    done.textContent = `${agent.name} is there, with the model ${agent.model}.`
    name.value = ''
    instructions.value = ''
  }
  return form(
    { label: 'New agent', onSubmit, onError: fail },
    element('h3', {}, 'A new agent'),
    labelled('Name', name),
    labelled('Instructions', instructions),
    labelled('Model', model),
    element('button', {}, 'Create'),
    done,
  )
}
