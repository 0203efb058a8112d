import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { Agent } from './refs.ts'

/** Defines the payload of a mutation that changes an agent. The payload loads the agent again by its id. */
export const changedAgentPayload = (name: string) =>
  builder.objectRef<{ agentId: string }>(name).implement({
    fields: (t) => ({
      agent: t.field({
        type: Agent,
        resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
      }),
    }),
  })
