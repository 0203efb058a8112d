import { BadInputError, ConflictError, ForbiddenError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import type { JsonObject } from '../lib/json.ts'
import { connectionInWords, connectsTo, isAskedByName } from '../rules/approvals.ts'
import { isAnsweredBy, mayAnswer, waitsFor } from '../rules/call-answers.ts'
import { CONNECT_PATH } from '../rules/connect-path.ts'
import { isAdmin } from '../rules/permissions.ts'
import { Approval } from './approval.ts'
import { existing, loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { mayHear } from './confidence.ts'
import { type Context, checkRequestRate, linkTo, renewed } from './context.ts'
import { Agent, Entity, File, Human, Message, Node, Run, StandingGrant, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'

const ToolCallStatus = builder.enumType('ToolCallStatus', {
  values: {
    STREAMING: { description: 'The model is still writing the input.' },
    RUNNING: {},
    WAITING: { description: 'The call waits for `submitToolResult` or `decideToolCall`.' },
    DONE: {},
    FAILED: {},
    TIMED_OUT: {},
    CANCELED: {},
  } as const,
})

const ToolCallWait = builder.enumType('ToolCallWait', {
  values: {
    RESULT: { description: 'Somebody must submit the result, with `submitToolResult`.' },
    DECISION: { description: 'A human must decide, with `decideToolCall`.' },
    MESSAGE: { description: "Somebody must reply with a message in the call's space." },
  } as const,
})

/**
 * Whether the viewer may see the call, because it is part of a message in this response or because the viewer may
 * read its content.
 */
async function isSeen(call: shapes.ToolCall, { loaders, shownIn }: Context): Promise<boolean> {
  const asksPeople = call.approvalState !== null || call.grantId !== null
  const isPart = (call.execution !== null || asksPeople) && call.messageId !== null
  return (shownIn !== null && isPart && call.spaceId === shownIn) || loaders.visible.toolCallContents.load(call)
}

type MaybePromise<T> = T | Promise<T>

/** Returns a call's input or output. If the value was too long to be loaded with the call, loads it now. */
async function contentOf(
  call: shapes.ToolCall,
  name: 'input' | 'output',
  { loaders, meter }: Context,
): Promise<shapes.ToolCall['input']> {
  const { omitsInput = false, omitsOutput = false } = call
  if (!(name === 'input' ? omitsInput : omitsOutput)) return call[name]
  return (await loaders.callContents.load({ id: call.id, meter }))?.[name] ?? null
}

/**
 * Resolves the result of a call, or null for viewers who may not read it. If a tool is visible only because it
 * needs approval, only viewers of the run may read its output.
 */
async function outOf<T>(call: shapes.ToolCall, content: () => MaybePromise<T>, context: Context): Promise<T | null> {
  const { hidesOutput = false } = (call.approval ?? {}) as { hidesOutput?: boolean }
  if (hidesOutput && context.viewer.scope === 'HUMAN' && !isAdmin(context.viewer)) return null
  return (await isSeen(call, context)) ? content() : null
}

/**
 * Resolves a call's input or approval, or null for viewers who may not read it. Approvers who are listed in the
 * approval policy may read it if they may read the confidential spaces that the call's content comes from.
 */
async function intoIt<T>(call: shapes.ToolCall, content: () => MaybePromise<T>, context: Context): Promise<T | null> {
  if (await isSeen(call, context)) return content()
  const { places, label } = call
  return isAskedByName(call, context.viewer.id) && (await mayHear([...places, ...label], context)) ? content() : null
}

/** Whether the viewer may submit the result that the call waits for. */
async function maySubmit(call: shapes.ToolCall, { domain, viewer, loaders }: Context): Promise<boolean> {
  if (isAdmin(viewer)) return mayAnswer(call, { scope: 'ADMIN' })
  if (waitsFor(call) !== 'RESULT' || !isAnsweredBy(call, viewer.scope)) return false
  if (viewer.scope === 'SERVICE') {
    const isGranted = domain.visibility.agents(viewer, [call.agentId]).has(call.agentId)
    return mayAnswer(call, { scope: 'SERVICE', isGranted })
  }
  const isMember = (await loadOptional(loaders.visible.spaces, call.spaceId)) !== null
  return mayAnswer(call, { scope: 'HUMAN', isMember })
}

ToolCall.implement({
  description: 'One call to a tool by an agent.',
  interfaces: [Node],
  fields: (t) => ({
    toolName: t.exposeString('toolName'),
    status: t.expose('status', { type: ToolCallStatus }),
    input: t.field({
      type: 'JSON',
      nullable: true,
      description:
        'The input without the routing fields `targetSpaceId` and `mention`. `input`, `output` and `error` are null unless the viewer is an admin, the service that triggered the run, or a member of the space in which the call is a visible part.',
      resolve: (call, _, context) => intoIt(call, () => contentOf(call, 'input', context), context),
    }),
    output: t.field({
      type: 'JSON',
      nullable: true,
      resolve: (call, _, context) => outOf(call, () => contentOf(call, 'output', context), context),
    }),
    error: t.string({ nullable: true, resolve: (call, _, context) => outOf(call, () => call.error, context) }),
    files: t.field({
      type: [File],
      complexity: { field: 1, multiplier: 1 },
      description:
        'The files that the tool has returned, at most 20: images and other binary content from MCP and HTTP tools. Empty for viewers who may not read `output`.',
      resolve: async (call, _, context) =>
        (await outOf(call, () => context.loaders.visible.filesOfCalls.load(call.id), context)) ?? [],
    }),
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    run: t.field({
      type: Run,
      nullable: true,
      description: 'Null if the viewer may not see the run.',
      resolve: ({ runId }, _, { loaders }) => loaders.visible.runs.load(runId),
    }),
    message: t.field({
      type: Message,
      nullable: true,
      description: 'The message that shows the call. Null if no message does or the viewer may not see it.',
      resolve: ({ messageId }, _, { loaders }) => loadOptional(loaders.visible.messages, messageId),
    }),
    waitsFor: t.field({
      type: ToolCallWait,
      nullable: true,
      description:
        'What the call waits for; null if it is not waiting. `Run.pendingToolCalls` contains only calls that wait for RESULT. `Viewer.pendingToolCalls` contains all calls that the viewer may answer.',
      resolve: (call) => waitsFor(call),
    }),
    settledAt: t.expose('settledAt', { type: 'DateTime', nullable: true }),
    expiresAt: t.expose('expiresAt', { type: 'DateTime', nullable: true }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

const CallAuthorization = builder.objectRef<shapes.ToolCall>('CallAuthorization').implement({
  description: 'The connection to an MCP server that a person has to make before a waiting tool call can continue.',
  fields: (t) => ({
    human: t.field({
      type: Human,
      resolve: ({ approverIds }, _, { loaders }) => loadExisting(loaders.entities, approverIds[0] ?? ''),
    }),
    serverName: t.string({ resolve: (call) => connectsTo(call) ?? '' }),
    text: t.string({
      description: 'A sentence that names the person and the server.',
      async resolve(call, _, { loaders }) {
        const { name } = await loadExisting(loaders.entities, call.approverIds[0] ?? '')
        return connectionInWords(name, connectsTo(call) ?? '')
      },
    }),
    url: t.string({
      nullable: true,
      description:
        'The page on which the person connects, in a browser in which they are signed in. Null for all other viewers, because the page works only for this person.',
      resolve: ({ id, approverIds }, _, context) =>
        context.viewer.scope === 'HUMAN' && context.viewer.acting === undefined && context.viewer.id === approverIds[0]
          ? linkTo(context, `${CONNECT_PATH}${id}`)
          : null,
    }),
  }),
})

builder.objectFields(ToolCall, (t) => ({
  approval: t.field({
    type: Approval,
    nullable: true,
    description: 'Null if the call needs no approval.',
    resolve: (call, _, context) => (call.approvalState === null ? null : intoIt(call, () => call, context)),
  }),
  grant: t.field({
    type: StandingGrant,
    nullable: true,
    description:
      'The standing grant that allowed the call to be executed without further approval. Null if there was none, or if the viewer may not see it.',
    resolve: ({ grantId }, _, { loaders }) => loadOptional(loaders.visible.standingGrants, grantId),
  }),
  authorization: t.field({
    type: CallAuthorization,
    nullable: true,
    description:
      'Set while the call waits for a person to connect to an MCP server (`McpAuthorization.PERSON`). The call continues once the person has connected; with `decideToolCall`, the person can only deny it. Null for viewers who do not see `approval`.',
    resolve: (call, _, context) => (connectsTo(call) === null ? null : intoIt(call, () => call, context)),
  }),
  claimedBy: t.field({
    type: Human,
    nullable: true,
    description:
      'The human who claimed the call with `claimToolCall`. Other people may still answer the call. Null again once this human may no longer answer it.',
    resolve: async (call, _, { loaders }) =>
      call.claimedById === null ? null : loadOptional(loaders.entities, await loaders.claimers.load(call)),
  }),
  answeredBy: t.field({
    type: Entity,
    nullable: true,
    description: 'The entity that submitted the result. Null if no entity did, or if the viewer may not see it.',
    resolve: ({ answeredById }, _, { loaders }) => loadOptional(loaders.visible.entities, answeredById),
  }),
  answeredByService: t.exposeString('answeredByService', {
    nullable: true,
    description: 'The service that submitted the result.',
  }),
  resultSchema: t.field({
    type: 'JSON',
    nullable: true,
    description: 'JSON Schema that a submitted result must match. Null unless the viewer may submit the result.',
    resolve: async (call, _, context) => {
      if (!(await maySubmit(call, context))) return null
      const tools = await context.loaders.tools.load(call.agentId)
      return tools.find(({ name }) => name === call.toolName)?.resultSchema ?? null
    },
  }),
  inputSchema: t.field({
    type: 'JSON',
    nullable: true,
    description: 'JSON Schema that an edited input must match. Null unless the viewer may decide on the call.',
    resolve: async (call, _, { loaders, viewer }) => {
      if (call.approvalState !== 'PENDING' || viewer.scope !== 'HUMAN') return null
      const { deciderIds } = await loaders.approvals.load(call)
      return deciderIds.includes(viewer.id) ? (call.approval as { inputSchema: JsonObject }).inputSchema : null
    },
  }),
}))

const SubmitToolResultInput = builder.inputType('SubmitToolResultInput', {
  fields: (t) => ({
    toolCallId: t.id({ required: true }),
    result: t.field({ type: 'JSON', required: true, description: 'What the tool returns to the agent.' }),
  }),
})

const SubmitToolResultPayload = builder.objectRef<{ toolCall: shapes.ToolCall }>('SubmitToolResultPayload').implement({
  fields: (t) => ({ toolCall: t.expose('toolCall', { type: ToolCall }) }),
})

builder.mutationField('submitToolResult', (t) =>
  t.field({
    type: SubmitToolResultPayload,
    errors: {
      types: [BadInputError, ForbiddenError, NotFoundError, ConflictError, RateLimitedError],
      union: { description: 'ConflictError: the call was already answered, timed out, or its run has ended.' },
    },
    args: { input: t.arg({ type: SubmitToolResultInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const call = await domain.control.submitToolResult(viewer, input)
      const [toolCall] = await loaders.seenToolCalls([call])
      return { toolCall: existing(toolCall) }
    },
  }),
)
