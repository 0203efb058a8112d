import type { ModelServer } from './model-server.ts'
import { forAgent, type ModelAction } from './model-server-script.ts'

/** An agent's actions in one run, one list per generation. After the last one, the agent ends with "Done.". */
export type Turn = ModelAction[][]

/** Scripts an agent's runs, one turn for each in the order in which they start. Any further run fails. */
export function takesTurns(models: ModelServer, agentName: string, ...turns: Turn[]): void {
  const waiting = [...turns]
  let turn: Turn = []
  models.script(
    forAgent(agentName, ({ step }) => {
      if (step === 0) turn = waiting.shift() ?? [[{ error: `${agentName} was woken once too often.`, status: 400 }]]
      return turn[step] ?? [{ text: 'Done.' }]
    }),
  )
}

interface Named {
  id: string
}

export const say = (text: string): ModelAction => ({ toolCall: 'send_message', input: { text } })

export const enter = (space: Named): ModelAction => ({ toolCall: 'enter_space', input: { spaceId: space.id } })

export function mentions(target: Named, reason?: string, expectReply?: boolean): ModelAction {
  return { toolCall: 'mentionAgent', input: { targetAgentEntityId: target.id, ...given({ reason, expectReply }) } }
}

export function delegates(target: Named, reason?: string): ModelAction {
  return { toolCall: 'delegate', input: { targetAgentEntityId: target.id, ...given({ reason }) } }
}

export const skips = (reason?: string): ModelAction => ({ toolCall: 'skip', input: given({ reason }) })

function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
