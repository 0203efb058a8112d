import type { ModelAction, ModelRequest, ModelScript } from './model-server-script.ts'

/** The choices of a model: ids that it can use, and the counter of its actions. */
interface Temptation {
  random(below: number): number
  spaceIds: readonly string[]
  agentIds: readonly string[]
  wordsIn(text: string): string[]
  onCall(): void
}

const CALLS_AT_ONCE = 6
/** Actions that end a run, which the model tries only sometimes. */
const ENDS = new Set(['skip', 'delegate', 'delegateToAgent'])

/** A model that tries everything: with every tool, it posts everything that it has ever read, wherever it can. */
export function tellsEverything({ random, spaceIds, agentIds, wordsIn, onCall }: Temptation): ModelScript {
  const one = <T>(list: readonly T[]): T => list[random(list.length)] as T

  function inputs(text: string, words: readonly string[]): Record<string, () => object> {
    const knows = words.at(-1) ?? 'nothing'
    const memories = () => ({ memories: [{ key: `k${random(3)}`, value: text }] })
    const goals = () => ({ goals: [{ description: text }] })
    const plans = () => ({ plans: [{ name: one(['p0', 'p1', `p ${knows}`]), instruction: text, afterSeconds: 9000 }] })
    const shown = () => ({ text, ...(random(3) === 0 ? {} : { targetSpaceId: one(spaceIds), ...mention() }) })
    const mention = () => (random(4) === 0 ? { mention: one(agentIds) } : {})
    const wait = () => (random(4) === 0 ? { wait: { for: [{ type: 'any' }], timeout: 0.1 } } : {})
    const handed = () => ({ targetAgentEntityId: one(agentIds), reason: text, expectReply: random(2) === 0 })
    return {
      enter_space: () => ({ spaceId: one(spaceIds) }),
      send_message: () => ({ text }),
      read_messages: () => ({}),
      get_my_runs: () => ({ status: one(['completed', 'running']) }),
      readSpaceMessages: () => ({ spaceId: one(spaceIds) }),
      sendSpaceMessage: () => ({ spaceId: one(spaceIds), text, ...mention(), ...wait() }),
      getMyRuns: () => (random(2) === 0 ? {} : { triggerSpaceId: one(spaceIds) }),
      set_memories: memories,
      setMemories: memories,
      set_goals: goals,
      setGoals: goals,
      set_plans: plans,
      setPlans: plans,
      get_plans: () => ({}),
      getPlans: () => ({}),
      mentionAgent: handed,
      delegate: handed,
      delegateToAgent: () => ({ targetAgentEntityId: one(agentIds) }),
      skip: () => ({ reason: text }),
      post: () => ({ text }),
      told: () => ({ text }),
      hand: () => ({ text }),
      pay: () => ({ text }),
      chart: shown,
      ask: shown,
    }
  }

  return ({ step, messages, instructions, toolNames }: ModelRequest): ModelAction[] => {
    const words = wordsIn([instructions, ...messages.map((message) => message.text)].join('\n'))
    const text = `I know ${words.slice(-40).join(' ') || 'nothing'}.`
    if (random(40) === 0) return [{ error: text, status: 400 }]
    if (step >= 2) return [{ text }]
    const all = inputs(text, words)
    const offered = toolNames.filter((name) => name in all)
    const calls = Array.from({ length: CALLS_AT_ONCE }, () => {
      const chosen = one(offered)
      const toolCall = ENDS.has(chosen) && random(3) > 0 ? one(offered.filter((name) => !ENDS.has(name))) : chosen
      onCall()
      return { toolCall, input: all[toolCall]?.() ?? {} }
    })
    return [{ text }, ...calls]
  }
}
