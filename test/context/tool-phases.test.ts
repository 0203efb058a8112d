import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { spaceIn, type Thinking, thinkingOn } from '../support/thinking.ts'
import { enter, say } from '../support/turns.ts'

/**
 * Requirement 004, "Tool Phase Gates": an agent cannot respond before it has gathered all context, even if its model tries to.
 */
describe('a tool that a phase does not offer', () => {
  let parley: TestApplication
  let thinking: Thinking

  beforeAll(async () => {
    parley = await startApplication()
    thinking = thinkingOn(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  const OBSERVE = { fromStep: 0, activeTools: ['enter_space', 'read_messages', 'get_my_runs'], toolChoice: 'REQUIRED' }
  const ACT = { fromStep: 2, toolChoice: 'AUTO' }

  const room = (mind: 'STATELESS' | 'PERSISTENT') => parley.room('Ada', { mind, phases: [OBSERVE, ACT] as never })

  test.each(['STATELESS', 'PERSISTENT'] as const)(
    'is not executed, streams to no subscriber, and the model gets an error (%s)',
    async (mind) => {
      const { human, agent, space } = await room(mind)
      parley.models.script((request) =>
        steps(
          [enter({ id: mind === 'PERSISTENT' ? spaceIn(request) : space.id })],
          [say('Too early!')],
          [say('In time.')],
        )(request),
      )
      await parley.send(human, space.id, 'Hello')
      await thinking.rest(agent)
      const said = (await parley.messages(space.id)).filter(({ senderId }) => senderId === agent.id)
      expect(said).toMatchObject([{ seq: 2, status: 'COMPLETE', parts: [{ type: 'text', text: 'In time.' }] }])
      const { messages } = await parley.models.request(({ step }) => step === 2)
      expect(JSON.parse(messages.at(-1)?.text ?? '')).toEqual({
        error: { code: 'BAD_INPUT', message: 'There is no tool send_message for you at this step.' },
      })
    },
  )
})
