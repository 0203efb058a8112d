import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { type Context, renewed } from './context.ts'
import { Agent, Message, Node, Run, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'

const ToolCallStatus = builder.enumType('ToolCallStatus', {
  values: {
    STREAMING: { description: 'The model is still writing its input.' },
    RUNNING: {},
    WAITING: { description: 'It waits for `submitToolResult`.' },
    DONE: {},
    FAILED: {},
    TIMED_OUT: {},
    CANCELED: {},
  } as const,
})

const ToolCallWait = builder.enumType('ToolCallWait', {
  values: {
    RESULT: { description: 'For `submitToolResult`.' },
    MESSAGE: { description: 'For a message in its space.' },
  } as const,
})

/** What goes in and out of a call, for those who may see it. */
async function contentOf<T>(call: shapes.ToolCall, content: T, { loaders, shownIn }: Context): Promise<T | null> {
  const isShown = shownIn !== null && call.execution !== null && call.messageId !== null && call.spaceId === shownIn
  return isShown || (await loaders.visible.toolCallContents.load(call)) ? content : null
}

ToolCall.implement({
  interfaces: [Node],
  fields: (t) => ({
    toolName: t.exposeString('toolName'),
    status: t.expose('status', { type: ToolCallStatus }),
    input: t.field({
      type: 'JSON',
      nullable: true,
      description:
        'Routing fields (targetSpaceId, mention) are stripped. Like `output` and `error`: for admins, the service that triggered the run, and members of the space in which the call is a visible part; null for others.',
      resolve: (call, _, context) => contentOf(call, call.input, context),
    }),
    output: t.field({
      type: 'JSON',
      nullable: true,
      resolve: (call, _, context) => contentOf(call, call.output, context),
    }),
    error: t.string({ nullable: true, resolve: (call, _, context) => contentOf(call, call.error, context) }),
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    run: t.field({
      type: Run,
      nullable: true,
      description: 'Null where the viewer may not see it.',
      resolve: ({ runId }, _, { loaders }) => loaders.visible.runs.load(runId),
    }),
    message: t.field({
      type: Message,
      nullable: true,
      description: 'Where it shows; null where it shows nowhere, or not to the viewer.',
      resolve: ({ messageId }, _, { loaders }) => loadOptional(loaders.visible.messages, messageId),
    }),
    waitsFor: t.field({
      type: ToolCallWait,
      nullable: true,
      description:
        'What it waits for; null where it waits for nobody. `Run.pendingToolCalls` holds RESULT only, `Viewer.pendingToolCalls` all that the viewer may answer.',
      resolve: (call, _, { app }) => app.toolCalls.waitsFor(call),
    }),
    expiresAt: t.expose('expiresAt', { type: 'DateTime', nullable: true }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

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
      types: [BadInputError, ForbiddenError, NotFoundError, ConflictError],
      union: { description: 'ConflictError: it was answered already, timed out, or its run is over.' },
    },
    args: { input: t.arg({ type: SubmitToolResultInput, required: true }) },
    async resolve(_, { input }, context) {
      const { app, viewer, loaders } = renewed(context)
      const call = await app.control.submitToolResult(viewer, input)
      const [toolCall] = await loaders.seenToolCalls([call])
      return { toolCall: toolCall! }
    },
  }),
)
