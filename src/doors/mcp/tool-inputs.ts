import { z } from 'zod'

/** The maximum time for which a call waits for agents. */
export const LONGEST_WAIT_SECONDS = 300

const id = (what: string) => z.string().min(1).max(100).describe(what)
const page = (most: number, otherwise: number) =>
  z.int().min(1).max(most).optional().describe(`At most this many; ${otherwise} if absent.`)
const waitSeconds = z
  .number()
  .min(0)
  .max(LONGEST_WAIT_SECONDS)
  .optional()
  .describe(
    'How long to wait for the agents, in seconds. Default: 45, or 0 for a client with Tasks, which gets a task if the agents are not finished.',
  )
const idempotencyKey = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe('If you send the same content again with the same key, nothing is posted again.')

interface ToolDefinition<S extends z.ZodType = z.ZodType> {
  title: string
  description: string
  input: S
  /** The MCP annotations of a tool, which are hints about its behaviour. */
  annotations: { readOnlyHint: boolean; destructiveHint?: boolean; idempotentHint?: boolean; openWorldHint: false }
}

const READS = { readOnlyHint: true, openWorldHint: false } as const
const ADDS = { readOnlyHint: false, destructiveHint: false, openWorldHint: false } as const
const DECIDES = { readOnlyHint: false, destructiveHint: true, openWorldHint: false } as const

/** The tools of the endpoint, by name. */
export const TOOLS = {
  list_spaces: {
    title: 'List spaces',
    description: 'Lists the spaces that you may read, newest first: id, name, members, routing and unread messages.',
    input: z.strictObject({
      limit: page(50, 20),
      after: z.string().optional().describe('`nextCursor` from the previous page.'),
    }),
    annotations: READS,
  },
  read_messages: {
    title: 'Read messages',
    description:
      'Reads a page of messages in a space: the newest ones, or those before or after a given message. The page is sorted oldest first. `streamCursor` is the position up to which the result is complete; you can resume from it through any other interface of the server.',
    input: z.strictObject({
      spaceId: id('The id of a space from `list_spaces`.'),
      limit: page(100, 50),
      before: id('A message id. Returns older messages.').optional(),
      after: id('A message id. Returns newer messages.').optional(),
    }),
    annotations: READS,
  },
  search_messages: {
    title: 'Search messages',
    description: 'Finds messages that you may read. All words must match; "quoted words" must match as a phrase.',
    input: z.strictObject({
      query: z.string().min(1).max(500),
      spaceId: id('The id of a space, to search only in this space.').optional(),
      limit: page(50, 20),
      after: z.string().optional().describe('`nextCursor` from the previous page.'),
    }),
    annotations: READS,
  },
  send_message: {
    title: 'Send a message',
    description:
      'Posts a message in a space as you, and waits for the agents that it wakes. Returns their answers, or a task or the state so far if they need longer.',
    input: z.strictObject({
      spaceId: id('The id of a space from `list_spaces`.'),
      text: z.string().min(1),
      mentionedIds: z
        .array(id('The id of a member.'))
        .max(20)
        .optional()
        .describe('Members of the space that the message mentions.'),
      waitSeconds,
      idempotencyKey,
    }),
    annotations: ADDS,
  },
  ask_agent: {
    title: 'Ask an agent',
    description:
      'Sends a message to one agent and waits for its answer, in the space that you pass or, without one, in your own space with that agent. With the token of a service, triggers the agent.',
    input: z.strictObject({
      agentId: id('The id of an agent.'),
      text: z.string().min(1),
      spaceId: id('The id of a space to which you and the agent belong.').optional(),
      waitSeconds,
      idempotencyKey,
    }),
    annotations: ADDS,
  },
  list_pending: {
    title: 'List pending calls',
    description:
      'Lists the tool calls of agents that wait for your decision or for a result that you may submit, oldest first. For a long input it shows only the beginning as `inputBeginning`: the user must read the input and decide in the console.',
    input: z.strictObject({ limit: page(100, 20) }),
    annotations: READS,
  },
  decide: {
    title: 'Decide on a call',
    description:
      'Approves or denies a tool call that waits for a decision. Ask the user first: an approved call is executed.',
    input: z.strictObject({
      toolCallId: id('The id of a call from `list_pending`.'),
      approve: z.boolean(),
      reason: z.string().optional(),
      input: z.unknown().optional().describe('Replaces the input of the call. Earlier approvals become invalid.'),
      inputDigest: z
        .string()
        .optional()
        .describe('`inputDigest` from `list_pending`, so that only the input that you saw is approved.'),
    }),
    annotations: DECIDES,
  },
  submit_result: {
    title: 'Submit a result',
    description:
      'Submits the result of a tool call that waits for one. The result must match the schema from `list_pending`.',
    input: z.strictObject({ toolCallId: id('The id of a call from `list_pending`.'), result: z.unknown() }),
    annotations: ADDS,
  },
  stop_run: {
    title: 'Stop a run',
    description: 'Stops a run of an agent.',
    input: z.strictObject({
      runId: id('The id of a run.'),
      cascade: z.boolean().optional().describe('If true, also stops the runs that it started.'),
    }),
    annotations: { ...DECIDES, idempotentHint: true },
  },
} satisfies Record<string, ToolDefinition>

export type ToolName = keyof typeof TOOLS
export type ToolInput<N extends ToolName> = z.output<(typeof TOOLS)[N]['input']>

/** The tools whose calls may wait for agents. */
export const WAITING_TOOLS: readonly string[] = ['send_message', 'ask_agent'] satisfies ToolName[]

export const isToolName = (name: unknown): name is ToolName => typeof name === 'string' && Object.hasOwn(TOOLS, name)

/** The result of `tools/list`, which is the same for all viewers. */
export const TOOL_LIST = Object.entries(TOOLS).map(([name, { title, description, input, annotations }]) => {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(input)
  return { name, title, description, inputSchema: inputSchema as { type: 'object' }, annotations }
})
