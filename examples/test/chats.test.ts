import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { forAgent, steps } from '../../test/support/model-server-script.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { sayIn } from '../../test/support/space-tools.ts'
import { until } from '../../test/support/until.ts'
import { openChat as openApolloChat } from '../apollo/chat.ts'
import { openChat as openRelayChat } from '../relay/chat.ts'
import type { ShownMessage } from '../show-chat.ts'
import { openChat as openUrqlChat } from '../urql/chat.ts'

describe('the chats of the examples', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded' })
  })
  afterAll(() => parley?.close())

  test.each([
    ['Apollo Client', openApolloChat],
    ['Relay', openRelayChat],
    ['urql with graphcache', openUrqlChat],
  ])('%s shows a text while it is written, and the complete text afterwards', async (_, openChat) => {
    const { human, agent, space } = await parley.room('Ada', { toolset: 'SPACE_TOOLS' })
    const gate = Promise.withResolvers<void>()
    const chunks = [`{"spaceId":"${space.id}","text":"`, 'Cover ', 'them', gate.promise, ' tonight.', '"}']
    const said = steps(
      [sayIn(space.id, 'Frost is coming.')],
      [{ toolCall: 'sendSpaceMessage', chunks }],
      [{ text: 'ok' }],
    )
    parley.models.reset()
    parley.models.script(forAgent(agent.name, said))
    let shown: ShownMessage[] | null = null
    const onMessages = (messages: ShownMessage[]) => {
      shown = messages
    }
    const token = await parley.tokenOf(human)
    const chat = openChat({ url: `${parley.origin}/graphql`, token, spaceId: space.id, onMessages })
    await until('the chat has its messages', () => shown !== null)
    await chat.send('What do I do?')
    const half = 'Frost is coming.\n\nCover them'
    await until('the first half shows', () => shown?.[1]?.text === half && shown[1].isWriting)
    gate.resolve()
    await until('the whole shows', () => shown?.[1]?.text === `${half} tonight.` && !shown[1].isWriting)
    expect(shown).toMatchObject([{ text: 'What do I do?' }, { sender: agent.name }])
    chat.close()
  })
})
