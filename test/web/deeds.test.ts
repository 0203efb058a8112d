import { readFileSync } from 'node:fs'
import { buildSchema } from 'graphql'
import { describe, expect, test } from 'vitest'
import {
  ACTIONS,
  detailsOf,
  groupOfAction,
  isNoise,
  labelOf,
  sentenceOf,
  withoutRepeats,
  wordsOfAction,
  wordsOfValue,
} from '../../web/inspect/deeds.ts'

const id = (prefix: string, digit: number) => `${prefix}_${String(digit).repeat(32)}`
const ADA = { id: id('hum', 1), name: 'Ada', kind: 'HUMAN' as const }
const [BOB, GARDEN, IRIS, CALL] = [id('hum', 2), id('spc', 3), id('agt', 4), id('tcl', 5)]
const NAMES: Record<string, string> = {
  [ADA.id]: 'Ada',
  [BOB]: 'Bob',
  [GARDEN]: 'Garden',
  [IRIS]: 'Iris',
  [CALL]: 'a call',
}

/** Returns the sentence about an action of Ada, with the names of objects. */
function sentence(action: string, targetId: string | null, detail: object = {}, refused = false) {
  const { parts } = sentenceOf({ action, actor: ADA, detail, refused, serviceName: null, targetId })
  return parts.map((part) => (typeof part === 'string' ? part : (NAMES[part.id] ?? part.words))).join('')
}

describe('the words of the audit log', () => {
  test.each([
    ['actAs', 'Acted as a person'],
    ['addMember', 'Added a member to a space'],
    ['confirmMcpTools', 'Confirmed new or changed MCP tools of an agent'],
    ['connectMcpServer', 'Listed the tools of an MCP server for an agent'],
    ['createHuman', 'Added a person'],
    ['decideToolCalls', 'Decided on several tool calls'],
    ['editMessage', 'Edited a message'],
    ['endSession', 'Ended a session'],
    ['forkSpace', 'Copied a space'],
    ['invite', 'Invited somebody by email'],
    ['joinSpace', 'Joined a space by a join link'],
    ['proposeStandingGrant', 'Proposed a standing grant for a tool call'],
    ['publishAgentDraft', 'Published the draft of an agent'],
    ['react', 'Reacted to a message'],
    ['readOpenApi', 'Read an OpenAPI document'],
    ['rerunStep', 'Reran a run from one of its steps'],
    ['resetConsciousness', 'Reset the earlier thoughts of an agent'],
    ['restoreAgentVersion', 'Restored an earlier version of an agent'],
    ['retryRun', 'Retried a run'],
    ['revokeInvitation', 'Revoked an invitation'],
    ['setGoals', 'Changed goals of an agent'],
    ['stopRun', 'Stopped a run'],
    ['testModelProvider', 'Tested a model provider'],
    ['triggerAgent', 'Woke an agent'],
    ['tryTool', 'Tried out a tool'],
    ['updateSpace', 'Changed a space'],
    ['tool:stop_run', 'Used the tool “stop run”'],
    ['denyEntry', 'Denied an entry'],
  ])('of %s are “%s”', (action, words) => {
    expect(wordsOfAction(action)).toBe(words)
  })

  test.each([
    ['updateAgent', IRIS, {}, 'changed Iris'],
    [
      'updateAgent',
      IRIS,
      { maxSteps: 3, fields: ['id', 'name', 'maxSteps'] },
      'changed the name and max steps of Iris',
    ],
    ['updateAgent', IRIS, { fields: ['id', 'a', 'b', 'c', 'd', 'e'] }, 'changed the settings of Iris'],
    ['updateAgent', IRIS, { paused: true, fields: ['id', 'paused', 'name'] }, 'changed the name of Iris'],
    ['updateAgent', IRIS, { paused: true, fields: ['id', 'paused'] }, 'paused Iris'],
    ['updateAgent', IRIS, { asDraft: true, fields: ['id', 'name', 'asDraft'] }, 'saved a draft of Iris'],
    ['addMember', GARDEN, { entityId: BOB, spaceId: GARDEN }, 'added Bob to Garden'],
    ['removeMember', GARDEN, { entityId: BOB, spaceId: GARDEN }, 'removed Bob from Garden'],
    ['removeMember', GARDEN, { entityId: ADA.id, spaceId: GARDEN }, 'left Garden'],
    ['removeMember', GARDEN, { entityId: id('hum', 9) }, 'removed a member from Garden'],
    ['createWebhook', id('whk', 6), { agentId: IRIS }, 'created a webhook for Iris'],
    ['decideToolCall', CALL, { approve: true }, 'approved a call'],
    ['decideToolCall', CALL, { approve: false }, 'denied a call'],
    ['proposeStandingGrant', CALL, {}, 'proposed a standing grant for a call'],
    ['setModelProvider', null, { name: 'openai' }, 'set up the model provider openai'],
    ['updateHuman', ADA.id, {}, 'changed their own profile'],
    ['updateHuman', BOB, {}, 'changed Bob'],
    ['tool:stop_run', id('run', 7), {}, 'used the tool “stop run” on something'],
  ] as const)('make %s a sentence with who, whom and where', (action, target, detail, words) => {
    expect(sentence(action, target, detail)).toBe(words)
  })

  test('say that a refused action was only tried', () => {
    expect(sentence('removeMember', GARDEN, { entityId: BOB }, true)).toBe('tried to remove Bob from Garden')
    expect(sentence('tool:stop_run', null, {}, true)).toBe('tried to use the tool “stop run”')
  })

  test('exist for every mutation, so that no name of the API is shown', () => {
    const mutations = Object.keys(
      buildSchema(readFileSync('schema.graphql', 'utf8')).getMutationType()?.getFields() ?? {},
    )
    const unworded = mutations.filter((action) => !isNoise(action) && !ACTIONS.includes(action))
    expect(unworded).toEqual([])
  })

  test('omit absent values and lists of objects, and name the fields plainly', () => {
    const detail = {
      expiresInSeconds: 86_400,
      maxUses: null,
      memberIds: ['agt_1', 'hum_1'],
      grant: { humanId: 'hum_1', admin: null, fields: ['humanId', 'note'] },
      tools: [{ fields: ['name'] }],
      routing: 'MENTION_CHAIN',
      server: { oauth: 'NONE', fields: ['oauth', 'url'] },
      toolset: 'SPACE_TOOLS',
      confidential: true,
      spaceId: 'spc_1',
      actingAdminId: null,
      fields: ['name'],
    }
    const words = detailsOf({ detail, targetId: 'spc_1' }).map(({ path, values }) => [
      labelOf(path),
      ...values.map((one) => wordsOfValue(path, one)),
    ])
    expect(words).toEqual([
      ['valid for', '1 day'],
      ['members:', 'agt_1', 'hum_1'],
      ['grant person:', 'hum_1'],
      ['which agents wake:', 'one agent in turn'],
      ['toolset:', 'space tools'],
      ['confidential:', 'yes'],
      ['done in this name by:', 'the operator'],
    ])
    expect([labelOf('atSeq'), labelOf('mind'), labelOf('step'), wordsOfValue('step', 0)]).toEqual([
      'up to message',
      'memory:',
      'step',
      '1',
    ])
    expect(detailsOf({ detail: { asDraft: false }, targetId: null })).toEqual([])
    expect(wordsOfValue('timeoutSeconds', 90)).toBe('90 seconds')
    expect(wordsOfValue('expiresInSeconds', 7200)).toBe('2 hours')
  })

  test.each([
    ['addMember', 'Spaces'],
    ['createPlan', 'Plans'],
    ['createInvitation', 'People'],
    ['tool:send_message', 'Tools of agents'],
    ['signIn', 'Other'],
  ])('of %s stand under %s', (action, group) => {
    expect(groupOfAction(action)).toBe(group)
  })

  test('are shown once for a sign-in by an invitation, which writes two entries', () => {
    const entry = (action: string, at: string, by: string | null = null) => {
      const common = { refused: false, serviceName: null, targetId: null, actor: ADA }
      return { ...common, id: id('aud', 1), action, at, detail: by === null ? {} : { by } }
    }
    const entries = [
      entry('signIn', '2026-11-28T12:00:01Z', 'invitation'),
      entry('redeemInvitation', '2026-11-28T12:00:00Z'),
      entry('signIn', '2026-11-28T11:00:00Z', 'invitation'),
      entry('signIn', '2026-11-28T12:00:00Z', 'oidc'),
    ]
    expect(withoutRepeats(entries)).toEqual(entries.slice(1))
  })
})
