import type { Mind } from '../generated/prisma/client.ts'
import type { OverBudget } from '../lib/budget.ts'

// How agents are woken, by memory mode: a stateless agent by a run, a persistent one by an event in its inbox.

/** How an agent is woken: by a run, or by an event in its inbox. */
export function wayToWake({ mind }: { mind: Mind }): 'RUN' | 'INBOX' {
  return mind === 'STATELESS' ? 'RUN' : 'INBOX'
}

/** A paused agent without an inbox loses its triggers. */
export function losesTriggers(agent: { mind: Mind; paused?: boolean }): boolean {
  return agent.paused === true && wayToWake(agent) === 'RUN'
}

/** The budget that prevents waking the agent. For an exhausted root budget, events do not wait for another day. */
export function overBudgetOf(agent: { mind: Mind; over?: OverBudget | null }): OverBudget | null {
  const { over } = agent
  return over != null && (wayToWake(agent) === 'RUN' || over === 'ROOT') ? over : null
}
