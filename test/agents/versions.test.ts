import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { RULE_STACKS } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

interface Version {
  id: string
  number: number
  note: string | null
  diff: string
  definition: { instructions: string; tools: { name: string; headerNames: string[] }[] }
}

const FIELDS = 'id number note diff definition author { id }'
const INTERNALS = `query ($id: ID!) { node(id: $id) { ... on Agent { internals {
  instructions versions(first: 50) { edges { node { ${FIELDS} } } } draft { ${FIELDS} } } } } }`
const UPDATE = `mutation ($input: UpdateAgentInput!) { result: updateAgent(input: $input) {
  __typename ... on Error { message } ... on UpdateAgentPayload { agent { id } } } }`
const RESTORE = `mutation ($input: RestoreAgentVersionInput!) { result: restoreAgentVersion(input: $input) {
  __typename ... on Error { message } ... on RestoreAgentVersionPayload { version { ${FIELDS} } } } }`
const PUBLISH = `mutation ($input: PublishAgentDraftInput!) { result: publishAgentDraft(input: $input) {
  __typename ... on Error { message } ... on PublishAgentDraftPayload { version { ${FIELDS} } } } }`
const RUN_VERSION = 'query ($id: ID!) { node(id: $id) { ... on Run { agentVersion } } }'

const LOOK_UP: ToolInput = {
  name: 'look_up',
  description: 'Looks.',
  inputSchema: { type: 'object' },
  execution: 'EXTERNAL',
}
const CALL: ToolInput = {
  name: 'call',
  description: 'Calls.',
  inputSchema: { type: 'object' },
  execution: 'HTTP' as const,
  url: 'https://tools.example/call',
}

describe.each(RULE_STACKS)('versions of an agent, on the %s stack', (stack) => {
  let parley: TestServer
  let admin: ParleyClient
  beforeAll(async () => {
    parley = await startTestServer({ stack })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  async function internals(id: string) {
    const { data } = await admin.ask<{
      node: {
        internals: { instructions: string; versions: { edges: { node: Version }[] }; draft: Version | null }
      }
    }>(INTERNALS, { id })
    const { versions, ...rest } = data!.node.internals
    return { ...rest, versions: versions.edges.map(({ node }) => node) }
  }
  const ask = async (document: string, input: object) =>
    (await admin.ask<{ result: { __typename: string; message?: string; version?: Version } }>(document, { input }))
      .data!.result
  const update = (id: string, changes: object) => ask(UPDATE, { id, ...changes })

  test('each change creates a version; versions are listed newest first, each with its note and its difference from the previous one', async () => {
    const { id } = await parley.agent('Iris', { instructions: 'Be brief.' })
    expect(await update(id, { instructions: 'Be thorough.', versionNote: 'Asked by support' })).toMatchObject({
      __typename: 'UpdateAgentPayload',
    })
    const { versions } = await internals(id)
    expect(versions).toMatchObject([
      { number: 2, note: 'Asked by support', definition: { instructions: 'Be thorough.' } },
      { number: 1, note: null, definition: { instructions: 'Be brief.' } },
    ])
    expect(versions[0]?.diff).toContain('-instructions: Be brief.\n')
    expect(versions[0]?.diff).toContain('+instructions: Be thorough.\n')
  })

  test('pausing an agent creates none, nor does an update that changes nothing', async () => {
    const { id } = await parley.agent('Iris', { instructions: 'Same.' })
    await update(id, { paused: true })
    await update(id, { instructions: 'Same.' })
    expect((await internals(id)).versions.map(({ number }) => number)).toEqual([1])
  })

  test('restoring makes the agent what it was, as a new version', async () => {
    const { id } = await parley.agent('Iris', { instructions: 'First.', tools: [LOOK_UP], maxSteps: 7 })
    await update(id, { instructions: 'Second.', tools: [], maxSteps: 9 })
    const first = (await internals(id)).versions[1]!
    expect(await ask(RESTORE, { versionId: first.id })).toMatchObject({
      version: { number: 3, note: 'Version 1 again', definition: first.definition },
    })
    expect((await internals(id)).instructions).toBe('First.')
  })

  test('a version whose headers were deleted cannot be restored, and the error names their owner', async () => {
    const { id } = await parley.agent('Iris', { tools: [{ ...CALL, headers: { 'x-key': 'canary-1234' } }] })
    await update(id, { tools: [] })
    const first = (await internals(id)).versions[1]!
    expect(first.definition.tools).toMatchObject([{ name: 'call', headerNames: ['x-key'] }])
    expect(JSON.stringify(first)).not.toContain('canary')
    const refused = await ask(RESTORE, { versionId: first.id })
    expect(refused).toMatchObject({ __typename: 'ConflictError' })
    expect(refused.message).toContain('"call"')
    expect((await internals(id)).versions).toHaveLength(2)
  })

  test('a draft changes nothing until it is published, and collects several changes and their headers', async () => {
    const { id } = await parley.agent('Iris', { instructions: 'Now.' })
    await update(id, { asDraft: true, instructions: 'Later.' })
    await update(id, { asDraft: true, tools: [{ ...CALL, headers: { 'x-key': 'canary-5678' } }], versionNote: 'Tools' })
    const before = await internals(id)
    expect(before).toMatchObject({
      instructions: 'Now.',
      versions: [{ number: 1 }],
      draft: { number: 2, note: 'Tools', definition: { instructions: 'Later.', tools: [{ headerNames: ['x-key'] }] } },
    })
    const [stored] = await parley.app.platform.db.prisma.$queryRaw<{ row: string }[]>`
      SELECT to_jsonb(d)::text AS row FROM "AgentDraft" d WHERE "agentId" = ${id}`
    expect(stored?.row).toContain('Later.')
    expect(stored?.row).not.toContain('canary')
    expect(await ask(PUBLISH, { agentId: id })).toMatchObject({ version: { number: 2, note: 'Tools' } })
    expect(await internals(id)).toMatchObject({ instructions: 'Later.', draft: null })
    expect(await ask(PUBLISH, { agentId: id })).toMatchObject({ __typename: 'ConflictError' })
  })

  test('a draft is refused if it is invalid, or if the agent has changed since the draft began', async () => {
    const { id } = await parley.agent('Iris', { instructions: 'Now.' })
    expect(await update(id, { asDraft: true, maxSteps: 0 })).toMatchObject({ __typename: 'BadInputError' })
    expect(await update(id, { asDraft: true, paused: true })).toMatchObject({ __typename: 'BadInputError' })
    expect((await internals(id)).draft).toBeNull()
    await update(id, { asDraft: true, instructions: 'Later.' })
    await update(id, { maxSteps: 3 })
    expect(await ask(PUBLISH, { agentId: id })).toMatchObject({ __typename: 'ConflictError' })
    await update(id, { asDraft: true })
    expect(await ask(PUBLISH, { agentId: id })).toMatchObject({
      version: { number: 3, definition: { instructions: 'Later.', maxSteps: 3 } },
    })
  })

  test('a run keeps the version that it began with until it ends; the next run has the new one', async () => {
    const { human, agent, space } = await parley.room('Ada', { instructions: 'OLD RULES', tools: [LOOK_UP] })
    parley.models.script(steps([{ toolCall: 'look_up', input: {} }], [{ text: 'Done.' }]))
    const { runs } = await parley.send(human, space.id, 'Look it up')
    const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    await update(agent.id, { instructions: 'NEW RULES' })
    const [call] = (await parley.app.domain.toolCalls.ofRuns([run.id])).get(run.id) ?? []
    await parley.app.domain.control.submitToolResult(parley.admin, { toolCallId: call?.id ?? '', result: 'found' })
    await parley.runWhen(run.id)
    const resumed = await parley.models.request(({ step }) => step === 1)
    expect(JSON.stringify(resumed)).toContain('OLD RULES')
    expect(JSON.stringify(resumed)).not.toContain('NEW RULES')
    parley.models.reset()
    parley.models.script(steps([{ text: 'Done.' }]))
    const { runs: later } = await parley.send(human, space.id, 'Again')
    await parley.runWhen(later[0]?.id ?? '')
    expect(JSON.stringify(await parley.models.request(({ step }) => step === 0))).toContain('NEW RULES')
    const versionOf = async (id?: string) =>
      (await admin.ask<{ node: { agentVersion: number } }>(RUN_VERSION, { id })).data?.node.agentVersion
    expect([await versionOf(run.id), await versionOf(later[0]?.id)]).toEqual([1, 2])
  })

  test('are for admins only', async () => {
    const { id } = await parley.agent('Iris')
    const [version] = (await internals(id)).versions
    const ada = await parley.clientOf(await parley.human('Ada'))
    expect(
      (await ada.ask<{ node: null }>('query ($id: ID!) { node(id: $id) { id } }', { id: version?.id })).data?.node,
    ).toBeNull()
    const input = { versionId: version?.id ?? '' }
    expect((await ada.ask(RESTORE, { input })).data).toMatchObject({ result: { __typename: 'ForbiddenError' } })
  })
})
