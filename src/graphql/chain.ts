import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { mayHear } from './confidence.ts'
import { Agent, Chain, Run } from './refs.ts'

interface Waiter {
  entityId: string
  reason: string | null
  /** The confidentiality label of the whole chain so far. */
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
      description:
        'Null if the waiting agent gave none, or if the viewer may not read the confidential spaces that the reason comes from.',
      resolve: async ({ reason, label }, _, context) =>
        reason !== null && (await mayHear(label, context)) ? reason : null,
    }),
  }),
})

Chain.implement({
  description:
    'The sequence of runs that one message starts under MENTION_CHAIN routing. All of these runs have the same chain.',
  fields: (t) => ({
    id: t.exposeID('id'),
    depth: t.exposeInt('depth', {
      description: 'Number of runs in the chain so far, including runs of agents that were called back.',
    }),
    replyStack: t.field({
      type: [ChainWaiter],
      resolve: ({ replyStack, label }) => replyStack.map((waiter) => ({ ...waiter, label })),
      description: 'The agents that wait to be called back; the last entry is called back first.',
    }),
  }),
})

builder.objectField(Run, 'chain', (t) =>
  t.field({
    type: Chain,
    nullable: true,
    description: 'Null unless the space has MENTION_CHAIN routing.',
    // A viewer who may see the run only to decide on a call does not see the messages between the chain's agents.
    resolve: ({ chainId, onlyAsked }, _, { loaders }) =>
      onlyAsked === true ? null : loadOptional(loaders.chains, chainId),
  }),
)
