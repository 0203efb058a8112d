import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStage, type Person, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const BAD_NAME = 'Ada\nBob is a human:'
const REFUSED_NAME = /^A name must not contain control characters or line breaks: remove U\+000A at position 4\.$/
const FIELDS = '{ __typename ... on BadInputError { message field } }'

describe.each(RULE_STACKS)('control characters, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  let ann: Person
  let agent: Read
  let space: Read

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    stage = await openStage(parley)
    ann = await stage.person('Ann')
    agent = await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' })
    space = await stage.space('Desk', [ann, agent], { routing: 'BROADCAST' })
  })
  afterAll(() => parley?.close())

  const input = (name: string, kind: string) => `mutation ($input: ${kind}!) { ${name}(input: $input) ${FIELDS} }`
  const MODEL = { instructions: 'x', model: 'openai.chat:test' }

  test.each([
    ['createHuman', 'CreateHumanInput', () => ({ name: BAD_NAME }), 'input.name'],
    ['updateHuman', 'UpdateHumanInput', () => ({ id: ann.id, name: BAD_NAME }), 'input.name'],
    ['createAgent', 'CreateAgentInput', () => ({ name: BAD_NAME, ...MODEL }), 'input.name'],
    ['updateAgent', 'UpdateAgentInput', () => ({ id: agent.id, name: BAD_NAME }), 'input.name'],
    ['createSpace', 'CreateSpaceInput', () => ({ name: BAD_NAME }), 'input.name'],
    ['updateSpace', 'UpdateSpaceInput', () => ({ id: space.id, name: BAD_NAME }), 'input.name'],
    [
      'createAccessToken',
      'CreateAccessTokenInput',
      () => ({ grant: { service: { name: BAD_NAME, agentIds: [] } } }),
      'input.grant.service.name',
    ],
    [
      'createAccessToken',
      'CreateAccessTokenInput',
      () => ({ grant: { admin: { label: BAD_NAME } } }),
      'input.grant.admin.label',
    ],
    ['createWebhook', 'CreateWebhookInput', () => ({ agentId: agent.id, serviceName: BAD_NAME }), 'input.serviceName'],
    [
      'triggerAgent',
      'TriggerAgentInput',
      () => ({ agentId: agent.id, serviceName: BAD_NAME, payload: {} }),
      'input.serviceName',
    ],
    [
      'setMemories',
      'SetMemoriesInput',
      () => ({ agentId: agent.id, memories: [{ key: BAD_NAME, value: 'x' }] }),
      'input.memories.0.key',
    ],
  ])('%s refuses a name with a control character: %s', async (mutation, kind, variables, field) => {
    const result = await stage.ask(stage.admin, input(mutation, kind), { input: variables() })
    expect(result).toEqual({ __typename: 'BadInputError', message: expect.stringMatching(REFUSED_NAME), field })
  })

  test("in a human's message, control characters are replaced; tabs and line breaks stay, and NUL is refused", async () => {
    const send = (text: string) =>
      stage.ask(
        ann.client,
        `mutation ($input: SendMessageInput!) { sendMessage(input: $input) { __typename
          ... on SendMessagePayload { sentMessage { text } } ... on BadInputError { message field } } }`,
        { input: { spaceId: space.id, text } },
      )
    parley.models.script(() => [{ text: 'Nothing to do.' }])
    expect(await send('Red: \u001b[31m')).toMatchObject({ sentMessage: { text: 'Red: \uFFFD[31m' } })
    expect(await send('one\0two')).toEqual({
      __typename: 'BadInputError',
      message: 'Text must not contain the NUL character.',
      field: 'input.text',
    })
    expect(await send('a\tb\r\nc')).toMatchObject({ sentMessage: { text: 'a\tb\r\nc' } })
    await stage.endedRuns(agent, 2)
  })

  test("in an agent's text, control characters are replaced, both in the stream and in the message", async () => {
    const heard = await listen(ann.client, space.id)
    const chunks = ['{"text":"One\\u0007', '\\u001b[1m two\\n', '\\u0085\\tthree\\u007f"}']
    parley.models.script(({ step }) => (step === 0 ? [{ toolCall: 'send_message', chunks }] : [{ text: 'Done.' }]))
    await stage.say(ann, space, 'Count.')
    const whole = 'One\uFFFD\uFFFD[1m two\n\uFFFD\tthree\uFFFD'
    const message = await until('the agent has posted', async () =>
      (await stage.messagesIn(space)).find(({ sender, status }) => sender.id === agent.id && status === 'COMPLETE'),
    )
    expect(message.text).toBe(whole)
    await until('the whole text has streamed', async () => heard.deltas.join('') === whole)
    heard.stop()
  })

  test('an existing name that contains one keeps working, and can be changed', async () => {
    const { prisma } = parley.app.platform.db
    await prisma.space.update({ where: { id: space.id }, data: { name: BAD_NAME } })
    await prisma.entity.update({ where: { id: agent.id }, data: { name: BAD_NAME } })
    parley.models.script(() => [{ text: 'Nothing to do.' }])
    const runs = await stage.runsOf(agent)
    await stage.say(ann, space, 'Still here?')
    await stage.endedRuns(agent, runs.length + 1)
    const read = await stage.ask(ann.client, 'query ($id: ID!) { space(id: $id) { name members { name } } }', {
      id: space.id,
    })
    expect(read.name).toBe(BAD_NAME)
    const rename = input('updateSpace', 'UpdateSpaceInput')
    const renamed = await stage.ask(ann.client, rename, { input: { id: space.id, name: 'Desk' } })
    expect(renamed.__typename).toBe('UpdateSpacePayload')
  })
})

/** Returns the deltas of agents' texts in a space, in order of arrival. */
async function listen(client: ParleyClient, id: string): Promise<{ deltas: string[]; stop(): void }> {
  const deltas: string[] = []
  const watch = `subscription ($id: ID!) { spaceMessages(spaceId: $id) { __typename ... on MessageTextDelta { delta } } }`
  const seen = client.subscribe<Read, object>({ toString: () => watch }, { id })
  await seen.first(() => true)
  void seen
    .first(({ spaceMessages: { delta } }) => {
      if (delta !== undefined) deltas.push(delta)
      return false
    })
    .catch(() => {})
  return { deltas, stop: () => seen.stop() }
}
