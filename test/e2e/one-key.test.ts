import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { steps } from '../support/model-server-script.ts'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createSpace, mutate, say } from './deployed.ts'
import { eventsOf, isA, watchSpace } from './watching.ts'

const KEY = 'sk-ant-a-key-of-the-operator'
const ANSWER = 'Good morning, Ada! The kettle is on.'
const REDIRECTED = path.resolve(import.meta.dirname, '../support/redirected-anthropic.ts')

describe('a server with nothing but ANTHROPIC_API_KEY', () => {
  let models: ModelServer
  let parley: ParleyProcess
  const clients: ParleyClient[] = []
  const connect = (token: string) => {
    const client = createParleyClient({ origin: parley.origin, token })
    clients.push(client)
    return client
  }

  beforeAll(async () => {
    models = await startModelServer({ apiKey: KEY })
    const settings = { ANTHROPIC_API_KEY: KEY, TEST_ANTHROPIC_URL: models.baseUrl, PARLEY_LOG_LEVEL: 'warn' }
    parley = await startParley({ command: ['--import', REDIRECTED, 'src/main.ts'], settings })
  })
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await parley?.kill()
    await models?.close()
  })

  test('streams the answer of an agent that is created without a model', async () => {
    const admin = connect(parley.adminToken)
    const { id: humanId } = await mutate(
      admin,
      'createHuman(input: { name: "Ada" })',
      'CreateHumanPayload { human { id } }',
    )
    const grant = `createAccessToken(input: { grant: { humanId: "${humanId}" } })`
    const { secret } = await mutate(admin, grant, 'CreateAccessTokenPayload { secret }')
    const agent = await mutate(
      admin,
      'createAgent(input: { name: "Iris", instructions: "Answer briefly." })',
      'CreateAgentPayload { agent { id model } }',
    )
    expect(agent.model).toBe('anthropic:claude-haiku-4-5')

    const { promise: isSeen, resolve: goOn } = Promise.withResolvers<void>()
    const gate = (index: number) => (index === 3 ? isSeen : undefined)
    models.script(
      steps([{ toolCall: 'send_message', input: { text: ANSWER }, chunks: 9, gate }], [{ text: 'I answered.' }]),
    )
    const ada = connect(secret)
    const spaceId = await createSpace(ada, [agent.id])
    const space = watchSpace(ada, spaceId)
    await space.first(isA('SpaceSnapshot'))
    await say(ada, spaceId, 'Hello')
    // The text is visible so far, while the model still waits.
    await space.first(isA('MessageTextDelta'))
    expect(eventsOf(space).some(({ __typename }) => __typename === 'MessageFinished')).toBe(false)
    goOn()
    await space.first(isA('MessageFinished', ANSWER))
    expect(models.requests[0]).toMatchObject({ endpoint: 'anthropic', model: 'claude-haiku-4-5' })
    expect(models.refusals).toEqual([])
    expect(parley.output()).not.toContain(KEY)
  })
})
