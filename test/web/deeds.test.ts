import { describe, expect, test } from 'vitest'
import { detailsOf, labelOf, wordsOfAction, wordsOfDeed, wordsOfField, wordsOfValue } from '../../web/inspect/deeds.ts'

const garden = { id: 'spc_1', named: { __typename: 'Space', id: 'spc_1', name: 'Garden' } } as const
const iris = { id: 'agt_1', named: { __typename: 'Agent', id: 'agt_1', name: 'Iris' } } as const
const call = {
  id: 'tcl_1',
  named: { __typename: 'ToolCall', id: 'tcl_1', toolName: 'order_fleece', run: null },
} as const

describe('the words of the audit log', () => {
  test.each([
    ['actAs', 'Acted as somebody'],
    ['addMember', 'Added a member'],
    ['confirmMcpTools', 'Confirmed MCP tools'],
    ['connectMcpServer', 'Connected an MCP server'],
    ['createHuman', 'Added a person'],
    ['decideToolCalls', 'Decided on tool calls'],
    ['editMessage', 'Edited a message'],
    ['endSession', 'Ended a session'],
    ['forkSpace', 'Forked a space'],
    ['invite', 'Invited somebody by email'],
    ['joinSpace', 'Joined a space'],
    ['proposeStandingGrant', 'Proposed a standing grant'],
    ['publishAgentDraft', 'Published an agent draft'],
    ['react', 'Reacted to a message'],
    ['readOpenApi', 'Read an OpenAPI document'],
    ['rerunStep', 'Reran a step'],
    ['resetConsciousness', 'Reset consciousness'],
    ['restoreAgentVersion', 'Restored an agent version'],
    ['retryRun', 'Retried a run'],
    ['revokeInvitation', 'Revoked an invitation'],
    ['setGoals', 'Set goals'],
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
    ['updateAgent', iris, 'changed agent'],
    ['actAs', iris, 'acted as'],
    ['addMember', garden, 'added a member to'],
    ['setNotifyLevel', garden, 'set the notification level of'],
    ['publishAgentDraft', iris, 'published the agent draft of'],
    ['decideToolCall', call, 'decided on'],
    ['proposeStandingGrant', call, 'proposed a standing grant for'],
    ['tool:stop_run', iris, 'used the tool “stop run” on'],
  ] as const)('of %s before the name of its target', (action, target, words) => {
    expect(wordsOfDeed({ action, refused: false }, target)).toBe(words)
  })

  test('say that a refused action was only tried', () => {
    expect(wordsOfDeed({ action: 'updateAgent', refused: true }, iris)).toBe('tried to change agent')
    expect(wordsOfDeed({ action: 'tool:stop_run', refused: true }, null)).toBe('tried to use the tool “stop run”')
  })

  test('omit absent values and lists of objects, and name the fields plainly', () => {
    const detail = {
      expiresInSeconds: 86_400,
      maxUses: null,
      memberIds: ['agt_1', 'hum_1'],
      grant: { humanId: 'hum_1', admin: null, fields: ['humanId', 'note'] },
      tools: [{ fields: ['name'] }],
      routing: 'MENTION_CHAIN',
      confidential: true,
      spaceId: 'spc_1',
      actingAdminId: null,
      fields: ['name'],
    }
    const { shown, texts } = detailsOf({ detail, targetId: 'spc_1' })
    const words = shown.map(({ path, values }) => [labelOf(path), ...values.map((one) => wordsOfValue(path, one))])
    expect(words).toEqual([
      ['valid for', '1 day'],
      ['members:', 'agt_1', 'hum_1'],
      ['grant person:', 'hum_1'],
      ['routing:', 'mention chain'],
      ['confidential:', 'yes'],
      ['acting admin:', 'the operator'],
    ])
    expect(texts.map(wordsOfField)).toEqual(['name', 'grant note'])
    expect(wordsOfValue('timeoutSeconds', 90)).toBe('90 seconds')
    expect(wordsOfValue('expiresInSeconds', 7200)).toBe('2 hours')
  })
})
