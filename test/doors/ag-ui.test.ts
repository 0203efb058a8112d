import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { allEventsOf, askAgUi, textsOf, userMessage } from '../support/ag-ui.ts'
import { STACKS } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

describe.each(STACKS)('the AG-UI door on the %s stack', (stack) => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const say = (text: string) => [{ toolCall: 'send_message', input: { text } }]

  test('a message to an agent is answered in a stream of events', async () => {
    const ana = await parley.human('Ana')
    const bot = await parley.agent('Bot')
    const token = await parley.tokenOf(ana)
    parley.models.script(steps(say('Hello Ana, how are you?')))
    const message = userMessage('Hi')
    const url = `${parley.origin}/ag-ui/agents/${bot.id}`
    const response = await askAgUi(url, token, { threadId: 't1', messages: [message] })
    expect(response.status).toBe(200)
    const events = await allEventsOf(response)
    console.log(JSON.stringify(events, null, 1))
    expect(events[0]).toMatchObject({ type: 'RUN_STARTED', threadId: 't1' })
    expect(Object.values(textsOf(events))).toEqual(['Hello Ana, how are you?'])
    expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
  })
})
