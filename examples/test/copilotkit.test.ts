import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { forAgent, steps } from '../../test/support/model-server-script.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { until } from '../../test/support/until.ts'
import { openChat } from '../copilotkit/chat.ts'
import type { ShownMessage } from '../show-chat.ts'

describe('the chat by CopilotKit', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(() => parley?.close())

  test('shows a text while it is written, sends the next message, and shows the same messages after a reload', async () => {
    const { human, agent, space } = await parley.room('Ada')
    const gate = Promise.withResolvers<void>()
    const chunks = ['{"text":"', 'Cover them', gate.promise, ' tonight.', '"}']
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }])))
    const token = await parley.tokenOf(human)
    let shown: ShownMessage[] = []
    const open = () =>
      openChat({
        url: `${parley.origin}/graphql`,
        token,
        spaceId: space.id,
        onMessages(messages) {
          shown = messages
        },
      })
    const chat = open()
    const sending = chat.send('What do I do?')
    await until('the first half shows', () => shown[1]?.text === 'Cover them' && shown[1].isWriting)
    gate.resolve()
    await sending
    const all = [{ text: 'What do I do?' }, { sender: agent.name, text: 'Cover them tonight.', isWriting: false }]
    expect(shown).toMatchObject(all)
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', input: { text: 'Good night.' } }])))
    await chat.send('Good night.')
    const more = [...all, { text: 'Good night.' }, { sender: agent.name, text: 'Good night.' }]
    expect(shown).toMatchObject(more)
    chat.close()
    shown = []
    const reloaded = open()
    await until('the chat has its messages', () => shown.length === more.length)
    expect(shown).toMatchObject(more)
    reloaded.close()
    expect(await parley.messages(space.id)).toHaveLength(more.length)
  })
})
