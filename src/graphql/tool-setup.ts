import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { McpServerInput, ToolInput } from './agent-mutations.ts'
import { builder } from './builder.ts'
import { linkTo, renewed } from './context.ts'
import { McpTool } from './refs.ts'
import type * as shapes from './shapes.ts'

const ConnectMcpServerInput = builder.inputType('ConnectMcpServerInput', {
  fields: (t) => ({
    server: t.field({ type: McpServerInput, required: true }),
    agentId: t.id({
      description:
        'An agent that already has an MCP server with this name. If the input has no headers, the stored headers of that server are used, provided that the URL has the same origin. Required for `oauth: SERVER` and `PERSON`, which store the token with that server; its URL must then be the same as in the input.',
    }),
  }),
})

const ConnectMcpServerPayload = builder.objectRef<shapes.ConnectedMcpServer>('ConnectMcpServerPayload').implement({
  fields: (t) => ({
    tools: t.expose('tools', {
      type: [McpTool],
      nullable: true,
      description: 'All tools of the MCP server. Null if it requires authorization first, or could not be used.',
    }),
    authorizationUrl: t.exposeString('authorizationUrl', {
      nullable: true,
      description:
        'The URL that the admin opens in a browser to authorize the connection. The browser then returns to `/auth/mcp/callback`.',
    }),
    error: t.exposeString('error', {
      nullable: true,
      description: 'Why the MCP server could not be used. Null if it could be used.',
    }),
  }),
})

const ReadOpenApiInput = builder.inputType('ReadOpenApiInput', {
  fields: (t) => ({
    document: t.string({
      description:
        'The OpenAPI 3 document itself, as JSON or YAML. Pass either `document` or `url`. A request can have at most 1 MiB, so pass a larger document, of at most 5 MB, by its URL.',
    }),
    url: t.string({ description: 'The URL of the document.' }),
  }),
})

const OpenApiTool = builder.objectRef<shapes.OpenApiTool>('OpenApiTool').implement({
  description: 'An operation of an OpenAPI document, as an HTTP tool.',
  fields: (t) => ({
    operation: t.exposeString('operation', { description: 'Method and path: `GET /pets/{id}`.' }),
    name: t.exposeString('name', { description: 'Unique among the tools of the document.' }),
    description: t.exposeString('description'),
    url: t.exposeString('url', {
      description:
        'The URL of the operation. The URL may contain placeholders for inputs: `{id}` in the path, `{?limit,tags*}` in the query.',
    }),
    method: t.exposeString('method', {
      description:
        'GET, POST, PUT, PATCH or DELETE. Inputs that the URL does not contain are sent as the JSON body, or as the query of a GET or DELETE.',
    }),
    inputSchema: t.expose('inputSchema', { type: 'JSON' }),
    problem: t.exposeString('problem', {
      nullable: true,
      description: 'Why the tool cannot be used without changes. Null if it can.',
    }),
  }),
})

const ReadOpenApiPayload = builder.objectRef<{ tools: shapes.OpenApiTool[] }>('ReadOpenApiPayload').implement({
  fields: (t) => ({ tools: t.expose('tools', { type: [OpenApiTool] }) }),
})

const TryToolInput = builder.inputType('TryToolInput', {
  fields: (t) => ({
    tool: t.field({ type: ToolInput, required: true }),
    input: t.field({ type: 'JSON', required: true }),
  }),
})

const TryToolPayload = builder.objectRef<shapes.TriedTool>('TryToolPayload').implement({
  fields: (t) => ({
    ok: t.exposeBoolean('ok'),
    output: t.field({ type: 'JSON', nullable: true, resolve: ({ output }) => output }),
    error: t.exposeString('error', { nullable: true }),
    durationMs: t.exposeInt('durationMs'),
  }),
})

builder.mutationFields((t) => ({
  connectMcpServer: t.field({
    type: ConnectMcpServerPayload,
    description:
      "Admins only. Lists the tools of an MCP server, without changing the settings of an agent. If the agent already has the server at this URL, the list is stored as the agent's current list.",
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: ConnectMcpServerInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.toolSetup.connectMcpServer(viewer, {
        ...input,
        redirectUrl: linkTo(context, '/auth/mcp/callback'),
      })
    },
  }),
  readOpenApi: t.field({
    type: ReadOpenApiPayload,
    description: 'Admins only. Converts the operations of an OpenAPI document to definitions of HTTP tools.',
    errors: { types: [BadInputError, ForbiddenError] },
    args: { input: t.arg({ type: ReadOpenApiInput, required: true }) },
    async resolve(_, { input }, { domain, viewer }) {
      return { tools: await domain.toolSetup.readOpenApi(viewer, input) }
    },
  }),
  tryTool: t.field({
    type: TryToolPayload,
    description:
      'Admins only. Calls a tool once with the given input, for at most 60 seconds. For an HTTP tool, the server sends a real request. SPACE and EXTERNAL tools cannot be tried.',
    errors: { types: [BadInputError, ForbiddenError] },
    args: { input: t.arg({ type: TryToolInput, required: true }) },
    resolve: (_, { input }, { domain, viewer }) => domain.toolSetup.tryTool(viewer, input),
  }),
}))
