import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openRemoteHeaders } from '../../src/agents/remote-agent.ts'
import { copiedId } from '../../src/lib/copied-id.ts'
import { resealAll } from '../../src/operation/key-rotation.ts'
import { type A2aServer, startA2aServer } from '../support/a2a-server.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { type Named, openStage, type Person, type Read, type Stage } from '../support/stage.ts'

const UPDATE = `mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename ... on Error { message } ... on BadInputError { field } } }`
const PUBLISH = `mutation ($input: PublishAgentDraftInput!) { publishAgentDraft(input: $input) { __typename ... on Error { message } } }`
const RESTORE = `mutation ($input: RestoreAgentVersionInput!) { restoreAgentVersion(input: $input) { __typename ... on Error { message } } }`
const FORK = `mutation ($input: ForkSpaceInput!) { forkSpace(input: $input) { ... on ForkSpacePayload { space { id } } ... on Error { message } } }`
const VERSIONS = `query ($id: ID!) { agent(id: $id) { internals { versions { edges { node { id number } } } } } }`
const REMOTE = `query ($id: ID!) { agent(id: $id) { internals { remote { headerNames mayReceiveConfidential confirmed approval { quorum } card { name } } } } }`

describe('the settings of an agent on another server', () => {
  let parley: TestServer
  let stage: Stage
  let remote: A2aServer
  let ada: Person

  beforeAll(async () => {
    remote = await startA2aServer()
    parley = await startTestServer({ settings: { PARLEY_ALLOW_PRIVATE_TOOLS: 'true' } })
    stage = await openStage(parley)
    ada = await stage.person('Ada')
  })
  afterAll(async () => {
    await parley?.close()
    await remote?.close()
  })
  beforeEach(() => remote.reset())

  const prisma = () => parley.app.platform.db.prisma
  const row = ({ id }: Named) => prisma().agent.findUniqueOrThrow({ where: { id } })
  const settings = async ({ id }: Named) => (await stage.ask(stage.admin, REMOTE, { id })).internals.remote
  const update = (agent: Named, input: object) => stage.ask(stage.admin, UPDATE, { input: { id: agent.id, ...input } })
  const headersOf = async (agent: Named) => {
    const found = await row(agent)
    return openRemoteHeaders(found, found.model, parley.app.platform.secretBox)
  }
  let path = 0
  const foreign = (more: object = {}) =>
    stage.bot('Weather', { model: `a2a:${remote.cardUrl}?${++path}`, toolset: 'ACTIVE_SPACE', ...more })
  const withHeaders = () => foreign({ remote: { headers: { authorization: 'Bearer one' } } })
  async function answersIn(agent: Named): Promise<Named> {
    const space = await stage.space('Team', [ada, agent], { routing: 'BROADCAST' })
    await stage.say(ada, space, 'Hello')
    return space
  }

  test('headers stay with a URL of the same origin, whose card is trusted on first use', async () => {
    const agent = await withHeaders()
    await answersIn(agent)
    expect(await stage.endedRuns(agent, 1)).toMatchObject([{ status: 'COMPLETED' }])
    await update(agent, { model: `a2a:${remote.cardUrl}?moved` })
    expect(await settings(agent)).toMatchObject({ headerNames: ['authorization'], card: null, confirmed: true })
    expect(await headersOf(agent)).toEqual({ authorization: 'Bearer one' })
    await update(agent, { remote: { headers: null } })
    expect(await settings(agent)).toMatchObject({ headerNames: [] })
    await update(agent, { remote: { headers: { 'x-key': 'two' } } })
    await update(agent, { model: 'demo' })
    expect(await row(agent)).toMatchObject({ remoteHeadersSealed: null, remoteHeaderNames: [], remoteCard: null })
    expect(await settings(agent)).toBeNull()
  })

  test('a draft stores its headers separately, and drops them if a later change names another URL', async () => {
    const agent = await foreign()
    const draft = (input: object) => update(agent, { ...input, asDraft: true })
    await draft({ remote: { headers: { 'x-key': 'canary-of-the-draft' } } })
    await draft({ remote: { mayReceiveConfidential: true } })
    const stored = await prisma().agentDraft.findUniqueOrThrow({ where: { agentId: agent.id } })
    expect(JSON.stringify(stored)).not.toContain('canary-of-the-draft')
    expect(await stage.ask(stage.admin, PUBLISH, { input: { agentId: agent.id } })).toMatchObject({
      __typename: 'PublishAgentDraftPayload',
    })
    expect(await settings(agent)).toMatchObject({ headerNames: ['x-key'], mayReceiveConfidential: true })
    expect(await headersOf(agent)).toEqual({ 'x-key': 'canary-of-the-draft' })
    await draft({ remote: { headers: { 'x-key': 'another' } } })
    expect(await draft({ model: 'a2a:https://elsewhere.example/card.json' })).toMatchObject({
      __typename: 'BadInputError',
      field: 'input.remote.headers',
    })
  })

  test('headers and the confidentiality flag of a draft are dropped if the agent has moved to another origin since', async () => {
    const agent = await foreign()
    await update(agent, {
      asDraft: true,
      remote: { headers: { 'x-key': 'for the first origin' }, mayReceiveConfidential: true },
    })
    await update(agent, { model: 'a2a:https://elsewhere.example/card.json' })
    expect(await update(agent, { asDraft: true, description: 'New' })).toMatchObject({
      __typename: 'UpdateAgentPayload',
    })
    expect(await stage.ask(stage.admin, PUBLISH, { input: { agentId: agent.id } })).toMatchObject({
      __typename: 'PublishAgentDraftPayload',
    })
    expect(await settings(agent)).toMatchObject({ headerNames: [], mayReceiveConfidential: false })
  })

  test('an update keeps omitted fields, and another origin may not receive confidential content', async () => {
    const agent = await foreign({ remote: { approval: { quorum: 1 }, mayReceiveConfidential: true } })
    await update(agent, { remote: { headers: { 'x-key': 'rotated' } } })
    const kept = { headerNames: ['x-key'], mayReceiveConfidential: true, approval: { quorum: 1 } }
    expect(await settings(agent)).toMatchObject(kept)
    await update(agent, { model: `a2a:${remote.cardUrl}?elsewhere` })
    expect(await settings(agent)).toMatchObject(kept)
    await update(agent, { remote: { headers: null } })
    await update(agent, { model: 'a2a:https://elsewhere.example/card.json' })
    expect(await settings(agent)).toMatchObject({ mayReceiveConfidential: false, approval: { quorum: 1 } })
    await update(agent, { remote: { approval: null } })
    expect(await settings(agent)).toMatchObject({ approval: null })
  })

  test('a version without headers can be restored, and one with headers only while the agent has them', async () => {
    const agent = await withHeaders()
    const versions = async (): Promise<Read[]> =>
      (await stage.ask(stage.admin, VERSIONS, { id: agent.id })).internals.versions.edges.map(({ node }: Read) => node)
    const [first] = await versions()
    await update(agent, { remote: { mayReceiveConfidential: true } })
    const restore = async () => stage.ask(stage.admin, RESTORE, { input: { versionId: first.id } })
    expect(await restore()).toMatchObject({ __typename: 'RestoreAgentVersionPayload' })
    expect(await settings(agent)).toMatchObject({ headerNames: ['authorization'], mayReceiveConfidential: false })
    await update(agent, { remote: { headers: null } })
    expect(await restore()).toMatchObject({ __typename: 'ConflictError' })
  })

  test('a copy of its space has a copy of the agent with the headers, which requires approval', async () => {
    const agent = await withHeaders()
    const space = await answersIn(agent)
    await stage.endedRuns(agent, 1)
    const copy = await stage.ask(stage.admin, FORK, { input: { spaceId: space.id } })
    const copied = { id: copiedId(agent.id, copy.space.id), name: 'Weather' }
    expect(await settings(copied)).toMatchObject({ headerNames: ['authorization'], approval: { quorum: 1 } })
    expect(await headersOf(copied)).toEqual({ authorization: 'Bearer one' })
  })

  test('headers are encrypted with the new key when the key is rotated', async () => {
    const agent = await withHeaders()
    const { remoteHeadersSealed: before } = await row(agent)
    expect((await resealAll(parley.app.platform.db, parley.app.platform.secretBox)).failed).toEqual([])
    expect((await row(agent)).remoteHeadersSealed).not.toBe(before)
    expect(await headersOf(agent)).toEqual({ authorization: 'Bearer one' })
  })
})
