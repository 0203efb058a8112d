import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AgentMember, Room } from '../../src/rules/routing.ts'
import { mentionChain, nextInTurn } from '../../src/rules/routing.ts'

function member(id: string, joinedAt: number): AgentMember {
  return { id, name: id, mind: 'STATELESS', joinedAt }
}

/** Returns agents that joined one after the other. */
function roomOf(ids: string[], lastPicked: Room['lastPicked'] = null): Room {
  return {
    routing: 'MENTION_CHAIN',
    adminAgentId: null,
    mentionNarrows: false,
    lastPicked,
    agents: ids.map((id, index) => member(id, index + 1)),
  }
}

const human = { senderId: 'hum', senderKind: 'HUMAN' as const, mentions: [] }

/** Returns the agents that messages of a human pick, one after the other. */
function picks(room: Room, count: number): string[] {
  const picked: string[] = []
  for (let n = 0; n < count; n++) {
    const { wakes, picked: turn } = mentionChain(human, room)
    picked.push(...wakes.map(({ agent }) => agent.id))
    if (turn !== null) Object.assign(room, { lastPicked: { id: turn.id, joinedAt: turn.joinedAt } })
  }
  return picked
}

describe('the recipients of a message under MENTION_CHAIN', () => {
  test('a human message wakes one agent: the oldest member first, then in rotation by join order', () => {
    expect(picks(roomOf(['a', 'b', 'c']), 7)).toEqual(['a', 'b', 'c', 'a', 'b', 'c', 'a'])
  })

  test('a human message that mentions an agent wakes that agent, and uses no agent’s turn', () => {
    const room = roomOf(['a', 'b', 'c'])
    expect(picks(room, 1)).toEqual(['a'])
    const decision = mentionChain({ ...human, mentions: ['c'] }, room)
    expect(decision.wakes.map(({ agent, reason }) => [agent.id, reason])).toEqual([['c', 'This agent was mentioned.']])
    expect(decision.picked).toBeNull()
    expect(picks(room, 1)).toEqual(['b'])
  })

  test('every other agent sleeps, with a reason', () => {
    const { sleeps } = mentionChain(human, roomOf(['a', 'b', 'c']))
    expect(sleeps.map(({ agent, kind, reason }) => [agent.id, kind, reason])).toEqual([
      ['b', 'NOT_ROUTED', 'Another agent was picked.'],
      ['c', 'NOT_ROUTED', 'Another agent was picked.'],
    ])
  })

  test('an agent message wakes no agent: its mentions take effect when its run ends', () => {
    const { wakes, sleeps, picked } = mentionChain(
      { senderId: 'a', senderKind: 'AGENT', mentions: ['b'] },
      roomOf(['a', 'b', 'c']),
    )
    expect(wakes).toEqual([])
    expect(sleeps.map(({ agent }) => agent.id)).toEqual(['b', 'c'])
    expect(picked).toBeNull()
  })

  test('nobody wakes without agents', () => {
    expect(mentionChain(human, roomOf([]))).toEqual({ wakes: [], sleeps: [], picked: null })
  })
})

describe('the turn', () => {
  test('continues after the position of an agent that has left', () => {
    const room = roomOf(['a', 'b', 'c', 'd'])
    expect(picks(room, 2)).toEqual(['a', 'b'])
    const without = { ...room, agents: room.agents.filter(({ id }) => id !== 'b') }
    expect(picks(without, 3)).toEqual(['c', 'd', 'a'])
  })

  test('reaches a new member before it returns to older members', () => {
    const room = roomOf(['a', 'b'])
    expect(picks(room, 2)).toEqual(['a', 'b'])
    const joined = { ...room, agents: [...room.agents, member('n', 9)] }
    expect(picks(joined, 4)).toEqual(['n', 'a', 'b', 'n'])
  })

  test('orders agents that joined at the same time by their ids', () => {
    const agents = [member('a', 1), member('b', 1), member('c', 1)]
    expect(nextInTurn({ agents, lastPicked: { id: 'b', joinedAt: 1 } })?.id).toBe('c')
    expect(nextInTurn({ agents, lastPicked: { id: 'bb', joinedAt: 1 } })?.id).toBe('c')
  })

  test('is always fair: between two turns of one agent, every permanent member has had one', () => {
    const change = fc.oneof(
      fc.constant({ type: 'message' as const }),
      fc.constant({ type: 'join' as const }),
      fc.record({ type: fc.constant('leave' as const), index: fc.nat(6) }),
    )
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const room = roomOf(['a1', 'a2', 'a3'])
        const fairness = watchFairness()
        for (const [index, step] of changes.entries()) {
          if (step.type === 'join') room.agents.push(member(`n${index + 10}`, index + 10))
          else if (step.type === 'leave') fairness.left(room.agents.splice(step.index, 1)[0]?.id)
          else {
            const [id] = picks(room, 1)
            const ids = room.agents.map((agent) => agent.id)
            if (id !== undefined) expect(fairness.passedOver(id, ids)).toEqual([])
          }
        }
      }),
    )
  })
})

/** Records, for each agent, the members and the picks since its last turn. */
function watchFairness() {
  const since = new Map<string, { present: Set<string>; picked: Set<string> }>()
  return {
    left(id: string | undefined) {
      for (const { present } of since.values()) present.delete(id ?? '')
      since.delete(id ?? '')
    },
    /** Picks an agent. Returns the permanent members that have had no turn since its last one. */
    passedOver(id: string, ids: string[]): string[] {
      const before = since.get(id)
      for (const { picked } of since.values()) picked.add(id)
      since.set(id, { present: new Set(ids.filter((other) => other !== id)), picked: new Set() })
      return [...(before?.present ?? [])].filter((other) => !before?.picked.has(other))
    },
  }
}
