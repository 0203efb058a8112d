import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { CIRCLES, type Circle, OPEN } from '../support/circles.ts'
import { type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { gate } from '../support/space-tools.ts'
import { type Named, playScenarios, type Read, type Stage } from '../support/stage.ts'
import { inboxIn, interjectionIn, thinkingOn } from '../support/thinking.ts'
import { enter, say as says } from '../support/turns.ts'

// "Mid-Cycle Inbox Awareness" of requirement 004, with its values, through GraphQL: one persistent agent in the spaces Family
// and Support.

const MIND = `query ($id: ID!) { agent(id: $id) { internals {
  inbox { edges { node { type payload } } } consciousness { messages cycleCount } } } }`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } ... on Error { message } } }`

describe.each(RULE_STACKS)('inbox awareness of 004 through GraphQL, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage

  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const rest = (agent: Named) => thinkingOn(parley).rest(agent)
  const mindOf = async ({ id }: Named): Promise<Read> => (await stage.ask(stage.admin, MIND, { id })).internals
  const textsIn = async (place: Named) => (await stage.messagesIn(place)).map(({ text }) => text)
  const inboxHas = (text: string) => (request: ModelRequest) => inboxIn(request).includes(text)
  const interjections = () => parley.models.requests.flatMap((request) => interjectionIn(request) ?? [])

  /** Creates Husam in "Family", Ahmad in "Support", and one agent that is paused in the first step of "Plan the party". */
  async function heldInFamily({ confidential, people }: Circle, more: (support: Named) => object = () => ({})) {
    const [husam, ahmad] = [await stage.person('Husam'), await stage.person('Ahmad')]
    const [both, kind] = [[husam, ahmad], { routing: 'BROADCAST', confidential }]
    const support = await stage.space('Support', people([ahmad], both), kind)
    const mind = { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' }
    const agent = await stage.bot('Assistant', { ...mind, ...more(support) })
    await parley.app.domain.members.add(parley.admin, { spaceId: support.id, entityId: agent.id })
    const family = await stage.space('Family', [...people([husam], both), agent], kind)
    const held = gate()
    const plays = (script: (request: ModelRequest) => ModelAction[]) =>
      parley.models.script((request) => {
        if (!inboxHas('"Plan the party"')(request)) return script(request)
        const look = [enter(family)]
        return request.step === 0 && interjectionIn(request) === null
          ? [{ gate: held.promise }, ...look]
          : script(request)
      })
    const begin = async () => {
      await stage.say(husam, family, 'Plan the party')
      await parley.models.request(inboxHas('"Plan the party"'))
    }
    return { husam, ahmad, agent, family, support, held, plays, begin }
  }

  test.each(CIRCLES)(
    'the preview shows a correction, in $circle: the cycle ends early, and the next one handles the new events',
    async (circle) => {
      const { husam, ahmad, agent, family, support, held, plays, begin } = await heldInFamily(circle)
      plays((request) => {
        if (inboxHas('"Plan the party"')(request)) return [{ text: 'Husam has changed his mind: I stop here.' }]
        const answers = [
          ...(inboxHas('Actually cancel that')(request) ? [[enter(family), says('Canceled.')]] : []),
          ...(inboxHas('moved to Friday')(request) ? [[enter(support), says('Friday it is.')]] : []),
        ]
        return steps(...answers, [{ text: 'I told them.' }])(request) as ModelAction[]
      })
      await begin()
      await stage.say(husam, family, 'Actually cancel that, I changed my mind about all of it')
      await stage.say(ahmad, support, 'The deadline moved to Friday')
      const waiting = (await mindOf(agent)).inbox.edges.map(({ node }: Read) => [node.type, node.payload.content])
      expect(waiting.slice(-2)).toEqual([
        ['SPACE_MESSAGE', 'Actually cancel that, I changed my mind about all of it'],
        ['SPACE_MESSAGE', 'The deadline moved to Friday'],
      ])
      held.open()
      await rest(agent)

      // A cycle claims and sees only events with one label. If both spaces are confidential, one cycle follows the other.
      const apart = circle.confidential
      const correction = '  [Family] Husam: "Actually cancel that, I changed my mind about all ..."'
      const preview = apart
        ? ['[INBOX PREVIEW — 1 waiting]', correction]
        : ['[INBOX PREVIEW — 2 waiting]', correction, '  [Support] Ahmad: "The deadline moved to Friday..."']
      expect(interjections()[0]).toBe(preview.join('\n'))
      const shown = await parley.models.request((request) => interjectionIn(request) !== null)
      expect(shown.instructions).toContain(
        'These will be fully processed in your next cycle. If any are urgent or change your current task, adapt accordingly.',
      )
      const runs = await stage.runsOf(agent)
      expect(runs.map(({ triggerSummary, summary }) => [triggerSummary, summary])).toEqual([
        ['1 inbox event', 'Husam has changed his mind: I stop here.'],
        ...(apart ? ['1 inbox event', '1 inbox event'] : ['2 inbox events']).map((events) => [events, 'I told them.']),
      ])
      const taken = parley.models.requests.filter(({ step }) => step === 0).map(inboxIn)
      expect(taken.slice(1).flatMap((inbox) => inbox.split('\n').slice(1))).toEqual([
        `- [Family (id: ${family.id})] Husam (human): "Actually cancel that, I changed my mind about all of it"`,
        `- [Support (id: ${support.id})] Ahmad (human): "The deadline moved to Friday"`,
      ])
      expect((await textsIn(family)).at(-1)).toBe('Canceled.')
      expect((await textsIn(support)).at(-1)).toBe('Friday it is.')
      const last = parley.models.requests.at(-1) as ModelRequest
      expect(JSON.stringify(last.messages)).toContain('Husam has changed his mind: I stop here.')
      const { consciousness, inbox } = await mindOf(agent)
      expect(consciousness.cycleCount).toBe(runs.length)
      expect(JSON.stringify(consciousness.messages)).not.toContain('INBOX PREVIEW')
      expect(inbox.edges).toEqual([])
    },
  )

  test.each(CIRCLES)(
    'combined strategies, in $circle: events of an urgent space come first and in full; the rest is previewed',
    async (circle) => {
      const { husam, ahmad, agent, family, support, held, plays, begin } = await heldInFamily(circle, ({ id }) => ({
        cycle: { urgentFrom: [id] },
      }))
      plays((request) => {
        const between = interjectionIn(request)
        if (between?.startsWith('[URGENT]')) return [enter(support), says('On it.')]
        if (between !== null) return [enter(family), says('The party is planned.')]
        const isOfOwn = inboxHas('The server is down')(request) && request.step === 0
        return isOfOwn ? [enter(support), says('On it.')] : [{ text: 'Read.' }]
      })
      await begin()
      await stage.say(husam, family, 'And music?')
      await stage.say(ahmad, support, 'The server is down')
      held.open()
      await rest(agent)
      const preview = '[INBOX PREVIEW — 1 waiting]\n  [Family] Husam: "And music?..."'
      const urgent = `- [Support (id: ${support.id})] Ahmad (human): "The server is down"`
      const runs = await stage.runsOf(agent)
      // A cycle gets no event with another label. An event of another confidential space belongs to the next cycle.
      if (circle.confidential) {
        expect(interjections()[0]).toBe(preview)
        expect(interjections().join()).not.toContain('The server is down')
        const taken = parley.models.requests.filter(({ step }) => step === 0).map(inboxIn)
        expect(taken[1]?.split('\n').slice(1)).toEqual([urgent])
      } else expect(interjections().slice(0, 2)).toEqual([`[URGENT]\n${urgent}`, preview])
      expect(await textsIn(family)).toContain('The party is planned.')
      expect((await textsIn(support)).slice(-2)).toEqual(['The server is down', 'On it.'])
      const takenBy = async (place: Named, text: string) => {
        const { outcomes } = (await stage.messagesIn(place)).find((message) => message.text === text)
        expect(outcomes).toMatchObject([{ kind: 'INBOX' }])
        return runs.findIndex(({ id }) => id === outcomes[0].run.id)
      }
      const order = [await takenBy(support, 'The server is down'), await takenBy(family, 'And music?')]
      expect(order).toEqual(circle.confidential ? [1, 2] : [0, 1])
      expect(runs).toHaveLength(circle.confidential ? 3 : 2)
    },
  )

  test('service triggers wait in the inbox, and urgent ones enter the running cycle first', async () => {
    const { agent, held, plays, begin } = await heldInFamily(OPEN)
    plays(() => [{ text: 'Read.' }])
    await begin()
    for (const [ticket, urgent] of [
      ['PROJ-1', false],
      ['PROJ-2', true],
    ] as const) {
      const input = { agentId: agent.id, serviceName: 'jira', payload: { ticket }, urgent }
      expect(await stage.ask(stage.admin, TRIGGER, { input })).toEqual({ run: null })
    }
    held.open()
    await rest(agent)
    expect(interjections()).toEqual(['[URGENT]\n- [SERVICE jira] {"ticket":"PROJ-2"}'])
    const last = inboxIn(parley.models.requests.at(-1) as ModelRequest)
    expect(last.split('\n').slice(1)).toEqual(['- [SERVICE jira] {"ticket":"PROJ-1"}'])
  })
})
