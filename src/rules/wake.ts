import type { Mind } from '../generated/prisma/client.ts'
import type { OverBudget } from '../lib/budget.ts'

// Decides how agents are woken: a stateless agent gets a run, a persistent agent gets an event in its inbox.

export function wayToWake({ mind }: { mind: Mind }): 'RUN' | 'INBOX' {
  return mind === 'STATELESS' ? 'RUN' : 'INBOX'
}

/** Whether the agent's triggers are lost, because the agent is paused and has no inbox. */
export function losesTriggers(agent: { mind: Mind; paused?: boolean }): boolean {
  return agent.paused === true && wayToWake(agent) === 'RUN'
}

/**
 * Returns the exhausted budget that prevents waking the agent. The budget of a root does not renew, so events do not
 * wait for the next day.
 */
export function overBudgetOf(agent: { mind: Mind; over?: OverBudget | null }): OverBudget | null {
  const { over } = agent
  return over != null && (wayToWake(agent) === 'RUN' || over === 'ROOT') ? over : null
}
