import type { Mind } from '../generated/prisma/client.ts'
import type { OverBudget } from '../lib/budget.ts'

// Determines how agents are woken: a stateless agent by a run, a persistent agent by an event in its inbox.

export function wayToWake({ mind }: { mind: Mind }): 'RUN' | 'INBOX' {
  return mind === 'STATELESS' ? 'RUN' : 'INBOX'
}

/** Whether triggers of the agent are lost, because it is paused and has no inbox. */
export function losesTriggers(agent: { mind: Mind; paused?: boolean }): boolean {
  return agent.paused === true && wayToWake(agent) === 'RUN'
}

/**
 * Returns the budget that prevents waking the agent. If the budget of a root is exhausted, events do not wait for
 * another day.
 */
export function overBudgetOf(agent: { mind: Mind; over?: OverBudget | null }): OverBudget | null {
  const { over } = agent
  return over != null && (wayToWake(agent) === 'RUN' || over === 'ROOT') ? over : null
}
