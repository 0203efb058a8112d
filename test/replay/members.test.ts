import { afterAll, beforeAll, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { recordingOf } from '../support/recorded-rooms.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

const CREATE = `mutation ($input: CreateJoinLinkInput!) { createJoinLink(input: $input) {
  ... on CreateJoinLinkPayload { joinLink { url } } } }`
const JOIN = `mutation ($code: String!) { joinSpace(input: { code: $code }) { __typename } }`
const LEAVE = `mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }`

let parley: TestServer
beforeAll(async () => {
  parley = await startTestServer({ isFresh: true })
})
afterAll(() => parley?.close())

test('a person who joined by a link and left again does so in the replay too', async () => {
  const { domain, platform } = parley.app
  const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
  const agent = await parley.agent('Iris', { toolset: 'ACTIVE_SPACE' })
  const space = await parley.space(ada, [agent.id])
  parley.models.script(({ step }) =>
    step === 0 ? [{ toolCall: 'send_message', input: { text: 'Noted.' } }] : [{ text: 'Done.' }],
  )
  const ask = async (viewer: HumanViewer, query: string, variables: object) => {
    const { data, errors } = await (await parley.clientOf(viewer)).ask<Record<string, Read>>(query, variables)
    expect(errors).toBeUndefined()
    return data
  }
  const say = async (viewer: HumanViewer, text: string) => {
    await domain.sending.send(viewer, { spaceId: space.id, text })
    await until('the run has ended', async () => {
      const active = { in: ['QUEUED', 'RUNNING'] as ('QUEUED' | 'RUNNING')[] }
      return (await platform.db.prisma.run.count({ where: { status: active } })) === 0
    })
  }
  await say(ada, 'Before.')
  const made = await ask(ada, CREATE, { input: { spaceId: space.id } })
  const code = made?.['createJoinLink'].joinLink.url.split('/join/')[1]
  expect(await ask(bob, JOIN, { code })).toEqual({ joinSpace: { __typename: 'JoinSpacePayload' } })
  await say(bob, 'With Bob.')
  const left = await ask(bob, LEAVE, { input: { spaceId: space.id, entityId: bob.id } })
  expect(left).toEqual({ removeMember: { __typename: 'RemoveMemberPayload' } })
  await say(ada, 'After.')

  const { recording } = await recordingOf(parley, space.id)
  const replayed = await replay(recording)
  expect(replayed.isEqual, describeReplay('members', replayed)).toBe(true)
})
