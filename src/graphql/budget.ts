import type { BudgetLimits } from '../lib/budget.ts'
import { usdOf } from '../lib/model-cost.ts'
import { isAdmin } from '../rules/permissions.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { AgentInternals, Human, Space } from './refs.ts'

/** A budget, and the id of the agent, space or human to which it applies. */
interface OwnedBudget {
  ownerId: string
  limits: BudgetLimits
}

export const BudgetInput = builder.inputType('BudgetInput', {
  description:
    "An absent field stays unchanged; null removes the limit. A generation is counted when it ends, on that UTC day: for its agent, for the space of its run's trigger (a think cycle: the space of its deepest event, which also sets depth and root), for its root, and for the human at the root (see `UsageDimension.HUMAN`). A root is a human's message, a plan's firing or a service's call, with everything that follows from it; the lowest `PerRoot` limit of its space, of its human and of the agents that work in it applies to the whole root. When a budget is exhausted, a stateless agent is not woken (outcome OVER_BUDGET), and a running run ends FAILED (OVER_BUDGET) before its next generation. Events of a persistent agent wait for the next day (outcome OVER_BUDGET until then); if the budget of their root is exhausted, they are discarded. Under a limit in USD, models without a known price are not called. `demo` costs nothing. A copy of an agent or a space, or a copy of such a copy, is also subject to the limits of the original. The copy is blocked once its own usage, combined with the usage of the original, of the copies made by the original's members or the operator, and of the other copies of the same owner, reaches a limit. The original is blocked only by its own usage, by the copies of the operator, and by copies whose owner (the human who made the copy) is still a member: of the space, or of a space with the agent.",
  fields: (t) => ({
    tokensPerDay: t.float(),
    tokensPerRoot: t.float(),
    usdPerDay: t.float(),
    usdPerRoot: t.float(),
  }),
})

const limitOf =
  (name: keyof BudgetLimits) =>
  ({ limits }: OwnedBudget) =>
    limits[name] ?? null

const Budget = builder.objectRef<OwnedBudget>('Budget').implement({
  fields: (t) => ({
    tokensPerDay: t.float({ nullable: true, resolve: limitOf('tokensPerDay') }),
    tokensPerRoot: t.float({ nullable: true, resolve: limitOf('tokensPerRoot') }),
    usdPerDay: t.float({ nullable: true, resolve: limitOf('usdPerDay') }),
    usdPerRoot: t.float({ nullable: true, resolve: limitOf('usdPerRoot') }),
    tokensSpentToday: t.float({
      resolve: async ({ ownerId }, _, { loaders }) => (await loaders.spentToday.load(ownerId))?.tokens ?? 0,
    }),
    usdSpentToday: t.float({
      nullable: true,
      description: 'Null if a model without a known price was used today.',
      async resolve({ ownerId }, _, { loaders }) {
        const spent = await loaders.spentToday.load(ownerId)
        return spent === null ? 0 : usdOf(spent.costNanos)
      },
    }),
  }),
})

function budgetOf(ownerId: string, limits: unknown): OwnedBudget | null {
  return limits === null ? null : { ownerId, limits: limits as BudgetLimits }
}

builder.objectField(AgentInternals, 'budget', (t) =>
  t.field({
    type: Budget,
    nullable: true,
    resolve: async ({ agentId }, _, { loaders }) =>
      budgetOf(agentId, (await loadExisting(loaders.agents, agentId)).budget),
  }),
)

builder.objectField(Space, 'budget', (t) =>
  t.field({
    type: Budget,
    nullable: true,
    description: 'Null unless the viewer is an admin or a human member.',
    // Humans can see only spaces that they belong to, so this check concerns only services.
    resolve: ({ id, budget }, _, { viewer }) => (viewer.scope === 'SERVICE' ? null : budgetOf(id, budget)),
  }),
)

builder.objectField(Human, 'budget', (t) =>
  t.field({
    type: Budget,
    nullable: true,
    description: 'For all usage with this human at the root. Null unless the viewer is an admin.',
    resolve: async ({ id }, _, { loaders, viewer }) =>
      isAdmin(viewer) ? budgetOf(id, (await loadExisting(loaders.entities, id)).budget) : null,
  }),
)
