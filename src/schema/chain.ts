import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { mayHear } from './confidence.ts'
import { Agent, Chain, Run } from './refs.ts'

interface Waiter {
  entityId: string
  reason: string | null
  /** Of all that was said in its chain so far. */
  label: string[]
}

const ChainWaiter = builder.objectRef<Waiter>('ChainWaiter').implement({
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ entityId }, _, { loaders }) => loadExisting(loaders.entities, entityId),
    }),
    reason: t.string({
      nullable: true,
      description: 'Null, too, for who may not hear what it comes from.',
      resolve: async ({ reason, label }, _, context) =>
        reason !== null && (await mayHear(label, context)) ? reason : null,
    }),
  }),
})

Chain.implement({
  description: 'Agents that hand a conversation on; the same for all its runs.',
  fields: (t) => ({
    id: t.exposeID('id'),
    depth: t.exposeInt('depth', { description: 'Runs in it so far, re-triggers included.' }),
    replyStack: t.field({
      type: [ChainWaiter],
      resolve: ({ replyStack, label }) => replyStack.map((waiter) => ({ ...waiter, label })),
      description: 'Who waits to be called back, the last to be asked last.',
    }),
  }),
})

builder.objectField(Run, 'chain', (t) =>
  t.field({
    type: Chain,
    nullable: true,
    description: 'The chain under MENTION_CHAIN routing; null otherwise.',
    // What its agents say to one another is nothing to who is only asked to decide on a call.
    resolve: ({ chainId, onlyAsked }, _, { loaders }) =>
      onlyAsked === true ? null : loadOptional(loaders.chains, chainId),
  }),
)
