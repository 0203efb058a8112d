import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import type { TestServer } from '../support/served.ts'
import { playScenarios, type Read, type Stage } from '../support/stage.ts'
import { enter, takesTurns } from '../support/turns.ts'

const NAME = 'merger_with_SWORDFISH_on_Friday'
const RUN = 'query ($id: ID!) { run(id: $id) { error triggerSummary toolCalls { id toolName input output error } } }'
const EVENTS = `subscription ($id: ID!) { runEvents(runId: $id) { __typename
  ... on RunToolCalled { toolCall { toolName input error } } ... on RunToolReturned { toolCall { toolName output error } }
  ... on RunToolInputDelta { toolName } } }`
const STEPS = 'query ($id: ID!) { run(id: $id) { internals { steps { edges { node { response } } } } } }'

describe.each(RULE_STACKS)('a call to a tool that does not exist, on the %s stack', (stack) => {
  const play = {} as { parley: TestServer; stage: Stage }
  playScenarios(stack, (opened) => Object.assign(play, opened))

  test('is shown to members without the name that the model wrote, which only the model and admins see', async () => {
    const { stage, parley } = play
    const [alice, bob] = [await stage.person('Alice'), await stage.person('Bob')]
    const agent = await stage.bot('Spy', { toolset: 'ACTIVE_SPACE' })
    const team = await stage.space('Team', [alice, bob, agent], { routing: 'BROADCAST' })
    const vault = await stage.space('Vault', [alice, agent], { routing: 'BROADCAST', confidential: true })
    takesTurns(parley.models, agent.name, [
      [enter(vault)],
      [{ toolCall: NAME, input: { to: 'Bob' } }],
      [{ text: 'Done.' }],
    ])
    const { runs } = await stage.say(alice, team, 'Look it up.')
    const events: Read[] = []
    const subscription = bob.client.subscribe({ toString: () => EVENTS }, { id: runs[0].id }, (event) =>
      events.push(event),
    )
    await parley.runWhen(runs[0].id)
    const seen = await stage.ask(bob.client, RUN, { id: runs[0].id })
    expect(seen.toolCalls.map(({ toolName }: Read) => toolName)).toEqual(['enter_space', 'unknown'])
    expect(JSON.stringify(seen)).not.toContain('SWORDFISH')
    await subscription.ended
    expect(JSON.stringify(events)).toContain('"unknown"')
    expect(JSON.stringify(events)).not.toContain('SWORDFISH')
    expect(JSON.stringify(await stage.ask(stage.admin, STEPS, { id: runs[0].id }))).toContain(NAME)
    // The provider receives the call and its result under the name that its model used.
    const last = await parley.models.request(({ step }) => step === 2)
    expect(JSON.stringify(last)).toContain(NAME)
    expect(JSON.stringify(last)).not.toContain('"unknown"')
  })
})
