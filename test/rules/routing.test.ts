import { describe, expect, test } from 'vitest'
import type { Routing } from '../../src/generated/prisma/client.ts'
import {
  type AgentMember,
  decideWakes,
  faultOfMentions,
  limitWakes,
  type Room,
  type RoutableMessage,
} from '../../src/rules/routing.ts'

const ada: AgentMember = { id: 'ada', name: 'Ada', mind: 'STATELESS', joinedAt: 1 }
const bea: AgentMember = { id: 'bea', name: 'Bea', mind: 'PERSISTENT', joinedAt: 2 }

const room = (routing: Routing, agents: AgentMember[]): Room => ({
  routing,
  adminAgentId: null,
  mentionNarrows: false,
  lastPicked: null,
  agents,
})

const fromHuman: RoutableMessage = { senderId: 'husam', senderKind: 'HUMAN', mentions: [] }
const fromAda: RoutableMessage = { senderId: 'ada', senderKind: 'AGENT', mentions: [] }

test('in a BROADCAST space with narrowing, a mention wakes only that agent; other routings ignore the setting', () => {
  const narrowed = (routing: Routing) => ({ ...room(routing, [ada, bea]), mentionNarrows: true })
  const decided = (message: RoutableMessage, routing: Routing = 'BROADCAST') =>
    decideWakes(message, narrowed(routing)).verdicts.map(({ agentId, kind }) => [agentId, kind])
  expect(decided({ ...fromHuman, mentions: ['bea'] })).toEqual([
    ['bea', 'INBOX'],
    ['ada', 'NOT_ROUTED'],
  ])
  expect(decided({ ...fromAda, mentions: ['bea'] })).toEqual([['bea', 'INBOX']])
  expect(decided(fromHuman)).toEqual([
    ['ada', 'RUN'],
    ['bea', 'INBOX'],
  ])
  expect(decided({ ...fromHuman, mentions: ['bea', 'ada', 'ines'] })).toEqual(decided(fromHuman))
  // If a message mentions only people, this does not restrict which agents wake.
  expect(decided({ ...fromHuman, mentions: ['ines'] })).toEqual(decided(fromHuman))
  const mentioning = { ...fromHuman, mentions: ['bea'] }
  expect(decideWakes(mentioning, room('BROADCAST', [ada, bea])).wakes).toHaveLength(2)
  expect(decideWakes(mentioning, { ...narrowed('ADMIN'), adminAgentId: 'ada' }).wakes).toEqual([ada])
})

describe('decideWakes', () => {
  test.each<[string, RoutableMessage, Room, Record<string, string>, string[], [string, string][], string | null]>([
    [
      'wakes each agent by its memory mode',
      fromHuman,
      room('BROADCAST', [ada, bea]),
      {},
      ['ada', 'bea'],
      [
        ['ada', 'RUN'],
        ['bea', 'INBOX'],
      ],
      null,
    ],
    ['does not wake the sender', fromAda, room('BROADCAST', [ada, bea]), {}, ['bea'], [['bea', 'INBOX']], null],
    [
      'keeps an event for a persistent agent whose daily budget is spent',
      fromHuman,
      room('BROADCAST', [{ ...bea, over: 'AGENT' }]),
      {},
      ['bea'],
      [['bea', 'OVER_BUDGET']],
      null,
    ],
    [
      'wakes no agent for a root whose budget is spent',
      fromHuman,
      room('BROADCAST', [{ ...bea, over: 'ROOT' }]),
      {},
      [],
      [['bea', 'OVER_BUDGET']],
      null,
    ],
    [
      'does not wake a paused agent without an inbox',
      fromHuman,
      room('BROADCAST', [
        { ...ada, paused: true },
        { ...bea, paused: true },
      ]),
      {},
      ['bea'],
      [
        ['bea', 'INBOX'],
        ['ada', 'PAUSED'],
      ],
      null,
    ],
    [
      'does not wake an agent that the message answers',
      fromHuman,
      room('BROADCAST', [ada, bea]),
      { ada: 'run_1' },
      ['bea'],
      [
        ['bea', 'INBOX'],
        ['ada', 'ANSWERED'],
      ],
      null,
    ],
    [
      'records an answered agent that routing would not have woken as answered',
      fromHuman,
      { ...room('ADMIN', [ada, bea]), adminAgentId: 'ada' },
      { bea: 'run_2' },
      ['ada'],
      [
        ['ada', 'RUN'],
        ['bea', 'ANSWERED'],
      ],
      null,
    ],
    [
      'takes the turn of the agent that it picks',
      fromHuman,
      room('MENTION_CHAIN', [ada, bea]),
      {},
      ['ada'],
      [
        ['ada', 'RUN'],
        ['bea', 'NOT_ROUTED'],
      ],
      'ada',
    ],
    [
      'takes no turn of an agent that it answers',
      fromHuman,
      room('MENTION_CHAIN', [ada, bea]),
      { ada: 'run_1' },
      [],
      [
        ['bea', 'NOT_ROUTED'],
        ['ada', 'ANSWERED'],
      ],
      null,
    ],
  ])('%s', (_, message, given, answered, wakes, verdicts, turn) => {
    const decision = decideWakes(message, given, new Map(Object.entries(answered)))
    expect(decision.wakes.map(({ id }) => id)).toEqual(wakes)
    expect(decision.verdicts.map(({ agentId, kind }) => [agentId, kind])).toEqual(verdicts)
    expect(decision.turn?.id ?? null).toBe(turn)
    for (const { agentId, runId } of decision.verdicts) expect(runId).toBe(answered[agentId] ?? null)
  })
})

describe('limitWakes', () => {
  const decision = decideWakes(fromHuman, room('BROADCAST', [ada, bea, { ...ada, id: 'cem', paused: true }]))

  test.each([
    [0, [], ['LOOP_LIMIT', 'LOOP_LIMIT', 'PAUSED']],
    [1, ['ada'], ['RUN', 'LOOP_LIMIT', 'PAUSED']],
    [2, ['ada', 'bea'], ['RUN', 'INBOX', 'PAUSED']],
    [3, ['ada', 'bea'], ['RUN', 'INBOX', 'PAUSED']],
  ])('wakes the first %i agents', (count, wakes, kinds) => {
    const limited = limitWakes(decision, { count, reason: 'Too many.' })
    expect(limited.wakes.map(({ id }) => id)).toEqual(wakes)
    expect(limited.verdicts.map(({ kind }) => kind)).toEqual(kinds)
    for (const { kind, reason } of limited.verdicts) expect(reason === 'Too many.').toBe(kind === 'LOOP_LIMIT')
  })
})

describe('faultOfMentions', () => {
  const paused = { ...bea, paused: true }
  const withMembers = (routing: Routing, agents: AgentMember[]) => ({
    ...room(routing, agents),
    members: new Set(['husam', ...agents.map(({ id }) => id)]),
  })

  test('refuses several agents under MENTION_CHAIN routing, and accepts one with several people', () => {
    const chain = withMembers('MENTION_CHAIN', [ada, bea])
    expect(faultOfMentions({ ...fromHuman, mentions: ['ada', 'bea'] }, chain)).toBe(
      'In a space with MENTION_CHAIN routing, a message can mention only one agent.',
    )
    expect(faultOfMentions({ ...fromHuman, mentions: ['husam', 'bea'] }, chain)).toBe(null)
  })

  test.each<[string, RoutableMessage, AgentMember[], string | null]>([
    ['accepts no mention', fromHuman, [], null],
    ['accepts members', { ...fromHuman, mentions: ['ada', 'husam', 'bea'] }, [ada, bea], null],
    [
      'refuses everybody else',
      { ...fromHuman, mentions: ['ada', 'eve'] },
      [ada],
      'Only a member of the space can be mentioned.',
    ],
    [
      'refuses a paused agent that a human mentions',
      { ...fromHuman, mentions: ['bea'] },
      [ada, paused],
      'A mentioned agent is paused: mention another agent, or none.',
    ],
    ['accepts a paused agent that an agent has mentioned', { ...fromAda, mentions: ['bea'] }, [ada, paused], null],
  ])('%s', (_, message, agents, fault) => {
    expect(faultOfMentions(message, withMembers('BROADCAST', agents))).toBe(fault)
  })
})
