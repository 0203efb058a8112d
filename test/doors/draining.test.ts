import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startServer } from '../../src/server/server.ts'
import { type AgUiEvent, allEventsOf, askAgUi, eventsOf, textsOf, userMessage } from '../support/ag-ui.ts'
import { steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

describe('the streams of a server that drains', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ settings: { PARLEY_DELTA_MS: '0' } })
  })
  afterAll(() => parley?.close())

  test('end, and their clients continue on another server and miss nothing', async () => {
    const leaving = await startServer({ app: parley.app, config: { ...parley.app.platform.config, port: 0 } })
    const ana = await parley.human('Ana')
    const token = await parley.tokenOf(ana)
    const bot = await parley.agent('Bot')
    const { promise: goOn, resolve } = Promise.withResolvers<void>()
    const answer = { toolCall: 'send_message', input: {}, chunks: ['{"text":"Before', goOn, ' and after."}'] }
    parley.models.script(steps([answer]))
    const path = `/ag-ui/agents/${bot.id}`
    const messages = [userMessage('Write')]
    const begun: AgUiEvent[] = []
    const response = await askAgUi(`http://127.0.0.1:${leaving.port}${path}`, token, { messages })
    let closing: Promise<void> | null = null
    const events = eventsOf(response)
    const follow = async () => {
      for await (const event of events) {
        begun.push(event)
        if (event.type === 'TEXT_MESSAGE_CONTENT') closing ??= leaving.close({ drain: true })
      }
    }
    await follow().catch(() => {})
    await closing
    expect(begun.some(({ type }) => type === 'RUN_FINISHED')).toBe(false)
    const { cursor } = begun.at(-1).rawEvent
    const rejoined = await askAgUi(`${parley.origin}${path}?threadId=thread&after=${cursor}`, token, null)
    resolve()
    const rest = await allEventsOf(rejoined)
    expect(Object.values(textsOf(rest, textsOf(begun)))).toEqual(['Before and after.'])
    expect(rest.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
  })
})
