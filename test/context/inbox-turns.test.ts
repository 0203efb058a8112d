import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { inboxIn, type Thinking, thinkingOn } from '../support/thinking.ts'

let parley: TestApplication
let thinking: Thinking

beforeAll(async () => {
  parley = await startApplication({ worker: false })
  thinking = thinkingOn(parley)
})
afterAll(() => parley?.close())

test('events that must be alone in a cycle take turns by requester, however many one person has sent', async () => {
  const [ann, bob] = [await parley.human('Ann'), await parley.human('Bob')]
  const agent = await thinking.bot('Ada')
  const space = await parley.app.domain.spaces.create(parley.admin, {
    name: 'Desk',
    routing: 'ADMIN',
    adminAgentId: agent.id,
    memberIds: [ann.id, bob.id, agent.id],
  })
  parley.models.script(() => [{ text: 'Read.' }])
  for (let n = 1; n <= 6; n++) await parley.send(ann, space.id, `Ann ${n}.`)
  for (let n = 1; n <= 2; n++) await parley.send(bob, space.id, `Bob ${n}.`)
  await parley.app.startWorker()
  await thinking.rest(agent)
  const read = parley.models.requests.flatMap((request) => inboxIn(request).match(/(Ann|Bob) \d\./g) ?? [])
  // The only event of a requester counts as waiting since its arrival. If there are several, the next one counts as waiting since
  // the last run of that requester.
  expect(read).toEqual(['Ann 1.', 'Bob 1.', 'Bob 2.', 'Ann 2.', 'Ann 3.', 'Ann 4.', 'Ann 5.', 'Ann 6.'])
})
