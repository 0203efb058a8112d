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
    "An absent field leaves its limit unchanged; null removes the limit.\n\nEach generation (one call of a model) counts when it ends, on that UTC day. It counts towards the budgets of its agent, of the space that triggered its run, of its root, and of the human at the root (see `UsageDimension.HUMAN`). For a think cycle, the inbox event with the greatest depth sets the space, the depth and the root. A root is a human's message, a plan's firing or a service's call, together with everything that follows from it. The lowest `PerRoot` limit of the root's space, its human and the agents that work in it applies to the whole root.\n\nWhen a budget is exhausted, no new run of a stateless agent starts (outcome OVER_BUDGET), and an active run ends FAILED (OVER_BUDGET) before its next generation. Events of a persistent agent wait for the next day (outcome OVER_BUDGET until then); if the budget of their root is exhausted, they are discarded. Under a limit in USD, models without a known price are not called. `demo` costs nothing.\n\nA copy of an agent or space, or a copy of such a copy, is also subject to the limits of the original. A limit blocks the copy once it is reached by the combined usage of the copy, the original, the copies made by the original's members or the operator, and other copies with the same owner. A limit blocks the original once it is reached by the combined usage of the original, the operator's copies, and copies whose owner is still a member of the space, or of a space with the agent. The owner is the human who made the copy.",
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
    description:
      "The budget for everything that this human's messages start (see `BudgetInput`). Null unless the viewer is an admin.",
    resolve: async ({ id }, _, { loaders, viewer }) =>
      isAdmin(viewer) ? budgetOf(id, (await loadExisting(loaders.entities, id)).budget) : null,
  }),
)
