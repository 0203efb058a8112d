import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { Agent } from './refs.ts'

/** The payload of a mutation that changes something of an agent, which is read anew from it. */
export const changedAgentPayload = (name: string) =>
  builder.objectRef<{ agentId: string }>(name).implement({
    fields: (t) => ({
      agent: t.field({
        type: Agent,
        resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
      }),
    }),
  })
