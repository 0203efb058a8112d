import { type IdPrefix, prefixOf } from '../lib/ids.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { Loadable } from './batch.ts'
import { builder } from './builder.ts'
import type { Context } from './context.ts'
import { Node } from './refs.ts'
import type { Loaders } from './viewer-loaders.ts'

type NodeLoader = Loadable<string, { id: string } | null>

interface NodeType {
  name: string
  loader(loaders: Loaders): NodeLoader
  adminsOnly?: true
}

/** For each id prefix, the type, and a loader that checks visibility in the same way as the fields of the type. */
const NODE_TYPES: Partial<Record<IdPrefix, NodeType>> = {
  spc: { name: 'Space', loader: ({ visible }) => visible.spaces as NodeLoader },
  msg: { name: 'Message', loader: ({ visible }) => visible.messages as NodeLoader },
  agt: { name: 'Agent', loader: ({ visible }) => visible.entities as NodeLoader },
  hum: { name: 'Human', loader: ({ visible }) => visible.entities as NodeLoader },
  run: { name: 'Run', loader: ({ visible }) => visible.runs as NodeLoader },
  tcl: { name: 'ToolCall', loader: ({ visible }) => visible.toolCalls as NodeLoader },
  grt: { name: 'StandingGrant', loader: ({ visible }) => visible.standingGrants as NodeLoader },
  pln: { name: 'Plan', loader: ({ plansById }) => plansById as NodeLoader, adminsOnly: true },
  plf: { name: 'PlanFiring', loader: ({ firingsById }) => firingsById as NodeLoader, adminsOnly: true },
  gol: { name: 'Goal', loader: ({ goalsById }) => goalsById as NodeLoader, adminsOnly: true },
  cyc: { name: 'Cycle', loader: ({ cycles }) => cycles as NodeLoader, adminsOnly: true },
  inb: { name: 'InboxEvent', loader: ({ inboxEvents }) => inboxEvents as NodeLoader, adminsOnly: true },
  acc: { name: 'AccessToken', loader: ({ accessTokens }) => accessTokens as NodeLoader, adminsOnly: true },
  inv: { name: 'Invitation', loader: ({ invitations }) => invitations as NodeLoader, adminsOnly: true },
  jln: { name: 'JoinLink', loader: ({ joinLinks }) => joinLinks as NodeLoader },
  fil: { name: 'File', loader: ({ visible }) => visible.files as NodeLoader },
  ses: { name: 'Session', loader: ({ sessions }) => sessions as NodeLoader },
  agv: { name: 'AgentVersion', loader: ({ agentVersions }) => agentVersions as NodeLoader, adminsOnly: true },
  aud: { name: 'AuditEntry', loader: ({ auditEntries }) => auditEntries as NodeLoader, adminsOnly: true },
  whk: { name: 'Webhook', loader: ({ webhooks }) => webhooks as NodeLoader, adminsOnly: true },
}

function nodeTypeOf(id: string): NodeType | undefined {
  const prefix = prefixOf(id)
  return prefix === null ? undefined : NODE_TYPES[prefix]
}

Node.implement({
  description: 'An object with a globally unique id (Relay).',
  resolveType: ({ id }) => nodeTypeOf(id)?.name,
  fields: (t) => ({
    id: t.exposeID('id', {
      description:
        "Globally unique. The prefix names the type (`spc_`, `msg_`, `agt_`, `hum_`, `run_`, `tcl_`, `grt_`, `pln_`, `gol_`, `plf_`, `cyc_`, `inb_`, `acc_`, `aud_`, `whk_`, `ses_`, `jln_`, `inv_`, `agv_`, `fil_`); the rest is ordered by time. Agents' tools and the server's logs use the same ids.",
    }),
  }),
})

/** Returns the object; null if it does not exist or the viewer may not see it. */
async function loadNode(id: string, { loaders, viewer }: Context): Promise<{ id: string } | null> {
  const type = nodeTypeOf(id)
  if (type === undefined || (type.adminsOnly && !isAdmin(viewer))) return null
  return type.loader(loaders).load(id)
}

builder.queryFields((t) => ({
  node: t.field({
    type: Node,
    nullable: true,
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, context) => loadNode(id, context),
  }),
  nodes: t.field({
    type: [Node],
    nullable: { list: false, items: true },
    complexity: ({ ids }) => ({ field: 1, multiplier: ids.length }),
    args: { ids: t.arg.idList({ required: true }) },
    resolve: (_, { ids }, context) => Promise.all(ids.map((id) => loadNode(id, context))),
  }),
}))
