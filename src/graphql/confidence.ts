import { isAdmin } from '../rules/permissions.ts'
import type { Withheld as WithheldRow } from '../runs/withheld.ts'
import { loadAll, loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import type { Context } from './context.ts'
import { Agent, Cycle, Goal, Human, McpServer, Memory, Plan, RunInternals, Space, StepRecord, Tool } from './refs.ts'
import type * as shapes from './shapes.ts'

interface Marked {
  places: string[]
  label: string[]
}

/** Returns those sources of the row that are currently confidential spaces and that the viewer may see. */
async function confidentialOf({ places, label }: Marked, _: object, { loaders }: Context): Promise<shapes.Space[]> {
  const spaces = await loadAll(loaders.visible.spaces, [...new Set([...places, ...label])].sort())
  return spaces.filter((space) => space?.confidential === true) as shapes.Space[]
}

/**
 * Whether the viewer may see content from these spaces. The viewer must be an admin, or a member of every
 * confidential space among them.
 */
export async function mayHear(spaceIds: readonly string[], { viewer, loaders }: Context): Promise<boolean> {
  if (spaceIds.length === 0 || isAdmin(viewer)) return true
  if (viewer.scope === 'SERVICE') return false
  const asked = spaceIds.map((spaceId) => ({ humanId: viewer.id, spaceId }))
  return !(await loadAll(loaders.ofHumans.isUnheard, asked)).includes(true)
}

/** Loads the requesters. Returns null if there are none. */
async function askersOf({ askers }: { askers: string[] }, _: object, { loaders }: Context) {
  if (askers.length === 0) return null
  return (await loadAll(loaders.entities, askers)).filter((human) => human !== null)
}

builder.objectField(Space, 'agentsElsewhere', (t) =>
  t.field({
    type: [Agent],
    description: 'Agents of this space that are also members of other spaces.',
    resolve: ({ id }, _, { loaders }) => loaders.agentsElsewhere.load(id),
  }),
)

builder.objectFields(Memory, (t) => ({
  id: t.exposeID('id', {
    description:
      'The same key with a different confidentiality label is a separate memory. `setMemories` writes the memory without a label; `deleteMemories` removes a key with every label.',
  }),
  confidentialTo: t.field({
    type: [Space],
    description:
      "The confidential spaces that the memory's content comes from. Spaces that the viewer may not see are omitted.",
    resolve: confidentialOf,
  }),
}))

builder.objectField(Goal, 'confidentialTo', (t) => t.field({ type: [Space], resolve: confidentialOf }))

builder.objectField(Cycle, 'confidentialTo', (t) => t.field({ type: [Space], resolve: confidentialOf }))

builder.objectFields(Plan, (t) => ({
  confidentialTo: t.field({ type: [Space], resolve: confidentialOf }),
  askers: t.field({
    type: [Human],
    nullable: true,
    description: "The requesters: humans on whose behalf the plan's runs work. Null for a plan that an admin created.",
    resolve: askersOf,
  }),
}))

builder.objectFields(RunInternals, (t) => ({
  confidentialTo: t.field({
    type: [Space],
    description: 'The confidential spaces whose content the run has read so far.',
    resolve: async ({ runId }, args, context) =>
      confidentialOf(await loadExisting(context.loaders.runs, runId), args, context),
  }),
  askers: t.field({
    type: [Human],
    nullable: true,
    description:
      "The requesters: humans on whose behalf the run works. Null for a run of an admin's plan or of a service.",
    resolve: async ({ runId }, args, context) =>
      askersOf(await loadExisting(context.loaders.runs, runId), args, context),
  }),
}))

const Withheld = builder.objectRef<WithheldRow>('Withheld').implement({
  description:
    'How many stored items from one confidential space were not shown to the model, because the run could repeat them outside that space.',
  fields: (t) => ({
    space: t.field({ type: Space, resolve: ({ spaceId }, _, { loaders }) => loadExisting(loaders.spaces, spaceId) }),
    memories: t.exposeInt('memories'),
    goals: t.exposeInt('goals'),
    plans: t.exposeInt('plans'),
    cycles: t.exposeInt('cycles'),
  }),
})

builder.objectFields(StepRecord, (t) => ({
  confidentialTo: t.field({
    type: [Space],
    resolve: ({ label }, args, context) => confidentialOf({ places: [], label }, args, context),
  }),
  withheld: t.field({
    type: [Withheld],
    async resolve({ withheld }, _, { loaders }) {
      const spaces = await loadAll(
        loaders.spaces,
        withheld.map(({ spaceId }) => spaceId),
      )
      return withheld.filter((_one, index) => spaces[index] !== null)
    },
  }),
}))

builder.objectField(Tool, 'mayReceiveConfidential', (t) => t.exposeBoolean('mayReceiveConfidential'))

builder.objectFields(McpServer, (t) => ({
  mayReceiveConfidential: t.exposeBoolean('mayReceiveConfidential'),
  confidentialTools: t.exposeStringList('confidentialTools', { nullable: true }),
}))
