import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, Chain, Run } from './refs.ts'

const ChainWaiter = builder.objectRef<{ entityId: string; reason: string | null }>('ChainWaiter').implement({
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ entityId }, _, { loaders }) => loadExisting(loaders.entities, entityId),
    }),
    reason: t.exposeString('reason', { nullable: true }),
  }),
})

Chain.implement({
  description: 'Agents that hand a conversation on; the same for all its runs.',
  fields: (t) => ({
    id: t.exposeID('id'),
    depth: t.exposeInt('depth', { description: 'Runs in it so far, re-triggers included.' }),
    replyStack: t.expose('replyStack', {
      type: [ChainWaiter],
      description: 'Who waits to be called back, the last to be asked last.',
    }),
  }),
})

builder.objectField(Run, 'chain', (t) =>
  t.field({
    type: Chain,
    nullable: true,
    description: 'The chain under MENTION_CHAIN routing; null otherwise.',
    resolve: ({ chainId }, _, { loaders }) => loadOptional(loaders.chains, chainId),
  }),
)
