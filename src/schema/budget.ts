import type { BudgetLimits } from '../lib/budget.ts'
import { usdOf } from '../lib/model-cost.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { AgentInternals, Space } from './refs.ts'

/** A budget, and whose: of an agent or of a space. */
interface OwnedBudget {
  ownerId: string
  limits: BudgetLimits
}

export const BudgetInput = builder.inputType('BudgetInput', {
  description:
    "A field left out stays, null lifts it. A generation counts when it ends: for its agent, for the space of its run's trigger (a cycle: of its deepest event, as depth and root), for its root, on that UTC day. A root is a human's message, a plan's firing or a service's call with all that came of it; the lowest `PerRoot` limit of its space and of any agent that works in it holds for the whole root. Spent: a stateless agent is not woken (OVER_BUDGET), a run under way ends FAILED (OVER_BUDGET) before its next generation; a mind's events wait for the next day (OVER_BUDGET until then), of a root that is spent they are done. Where a usd limit holds, a model without a known price is not run; `demo` costs nothing.",
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
      description: 'Null where a model without a known price was used.',
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
    description: 'For admins and human members.',
    // Of humans only members see a space.
    resolve: ({ id, budget }, _, { viewer }) => (viewer.scope === 'SERVICE' ? null : budgetOf(id, budget)),
  }),
)
