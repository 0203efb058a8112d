import { firstInBytes } from '../bytes.ts'
import type { Conversing } from '../conversing.ts'
import { type Caller, notFound } from '../exchange.ts'
import { DECIDE, mutate, type SendInput, STOP_RUN, SUBMIT_RESULT, sendMessage, TRIGGER_AGENT } from '../operations.ts'
import {
  LIST_SPACES,
  type Message,
  type Page,
  type PendingCall,
  READ_MESSAGES,
  SEARCH,
  type Space,
} from '../tasks/documents.ts'
import { openOwnSpace } from '../tasks/own-space.ts'
import { readCalls, readPendingIds, type TaskOutput } from '../tasks/tasks.ts'
import type { ToolInput, ToolName } from './tool-inputs.ts'

/** The outcome of a call to a tool. */
export type ToolOutcome =
  | { type: 'complete'; data: Record<string, unknown> }
  /** The tool started runs. The result depends on the runs' task, and on how long the client waits. */
  | { type: 'started'; taskId: string; waitSeconds: number | undefined }

export type Tools = { [N in ToolName]: (caller: Caller, input: ToolInput<N>) => Promise<ToolOutcome> }

const PAGE = 20
const MESSAGES = 50
/** The maximum number of characters that a result shows of a call's input. */
const LONGEST_INPUT = 4000

const complete = (data: Record<string, unknown>): ToolOutcome => ({ type: 'complete', data })
const noSuch = (what: string) => notFound(`There is no such ${what}, or you may not see it.`)

/**
 * Creates the tools of the endpoint. Each tool executes GraphQL operations that any other client could execute too.
 * @param mostListBytes the maximum size of a list of calls as JSON
 */
export function createTools(conversing: Pick<Conversing, 'open'>, mostListBytes: number): Tools {
  const send = async (caller: Caller, input: SendInput) => (await sendMessage(caller, input)).id

  return {
    async list_spaces(caller, { limit = PAGE, after }) {
      const { spaces } = await caller.ask<{ spaces: Page<Space> }>(LIST_SPACES, { first: limit, after })
      return complete({ spaces: spaces.edges.map(({ node }) => node), ...nextOf(spaces) })
    },

    async read_messages(caller, { spaceId, limit = MESSAGES, before, after }) {
      const range = after === undefined ? { last: limit, before } : { first: limit, after, before }
      const { space } = await caller.ask<{ space: (Space & { messages: Page<Message> }) | null }>(READ_MESSAGES, {
        spaceId,
        ...range,
      })
      if (space === null) throw noSuch('space')
      const { messages, ...about } = space
      const { hasNextPage, hasPreviousPage } = messages.pageInfo
      return complete({
        space: about,
        messages: messages.edges.map(({ node }) => node),
        hasOlder: hasPreviousPage,
        hasNewer: hasNextPage,
      })
    },

    async search_messages(caller, { query, spaceId, limit = PAGE, after }) {
      const { search } = await caller.ask<{ search: Page<{ snippet: string; message: object }> }>(SEARCH, {
        query,
        spaceId,
        first: limit,
        after,
      })
      const hits = search.edges.map(({ node: { snippet, message } }) => ({ ...message, snippet }))
      return complete({ hits, ...nextOf(search) })
    },

    async send_message(caller, { waitSeconds, ...message }) {
      return { type: 'started', taskId: await send(caller, message), waitSeconds }
    },

    async ask_agent(caller, { agentId, text, spaceId, waitSeconds, idempotencyKey }) {
      if (caller.viewer.scope === 'HUMAN') {
        const to = spaceId ?? (await openOwnSpace(conversing, caller, { agentId, door: 'mcp' }))
        const message = { spaceId: to, text, mentionedIds: [agentId], idempotencyKey }
        return { type: 'started', taskId: await send(caller, message), waitSeconds }
      }
      const serviceName = caller.viewer.scope === 'ADMIN' ? { serviceName: 'MCP' } : {}
      const input = { agentId, payload: { text }, idempotencyKey, ...serviceName }
      const { run: started } = await mutate<{ run: { id: string } | null }>(caller, TRIGGER_AGENT, input)
      if (started === null) return complete({ status: 'in_inbox', agentId })
      return { type: 'started', taskId: started.id, waitSeconds }
    },

    async list_pending(caller, { limit = PAGE }) {
      const ids = await readPendingIds(caller)
      const described = (await readCalls(caller, ids.slice(0, limit))).map(describeCall)
      const calls = firstInBytes(described, mostListBytes)
      return complete({ calls, hasMore: ids.length > calls.length })
    },

    async decide(caller, input) {
      return complete(await mutate(caller, DECIDE, input).then(withoutType))
    },

    async submit_result(caller, { toolCallId, result = null }) {
      return complete(await mutate(caller, SUBMIT_RESULT, { toolCallId, result }).then(withoutType))
    },

    async stop_run(caller, { runId, cascade = false }) {
      return complete(await mutate(caller, STOP_RUN, { runId, cascade }).then(withoutType))
    },
  }
}

const nextOf = ({ pageInfo: { hasNextPage, endCursor } }: Page<unknown>) =>
  hasNextPage ? { nextCursor: endCursor } : {}

function withoutType(payload: object): Record<string, unknown> {
  const { __typename: _, ...rest } = payload as Record<string, unknown>
  return rest
}

/** Returns a waiting call as results show it. A long input is shortened to the beginning of its JSON. */
export function describeCall({ id, message, approval, run, input, ...call }: PendingCall): Record<string, unknown> {
  const json = JSON.stringify(input ?? null)
  const isShort = json.length <= LONGEST_INPUT
  const shown = isShort ? { input } : { inputBeginning: json.slice(0, LONGEST_INPUT).toWellFormed(), inputIsCut: true }
  return {
    toolCallId: id,
    ...call,
    ...shown,
    runId: run?.id ?? null,
    space: message?.space ?? null,
    ...(approval === null
      ? {}
      : {
          inputDigest: approval.inputDigest,
          quorum: approval.quorum,
          decisions: approval.decisions.filter(({ counts }) => counts).length,
          mayDecide: approval.mayDecide,
        }),
  }
}

/** Returns the agents' replies as text for a model. */
export function textOfOutput({ outcomes, replies, isCut }: TaskOutput, isFinished: boolean): string {
  const lines = replies.map(
    ({ sender, text, status }) => `${sender.name}: ${text}${status === 'STREAMING' ? ' …' : ''}`,
  )
  const answered = new Set(replies.flatMap(({ run }) => run?.id ?? []))
  const others = outcomes
    .filter(({ runId }) => runId === null || !answered.has(runId))
    .map(({ agent, kind, runStatus, error, summary }) => {
      const state = runStatus === null ? kind : `${runStatus}${kind === 'RUN' ? '' : `, ${kind}`}`
      return `[${agent.name}: ${state}${error === null ? '' : `: ${error}`}]${summary === null ? '' : ` ${summary}`}`
    })
  if (outcomes.length === 0) others.push('[The message did not wake any agent.]')
  if (isCut) others.push('[There are more replies: read them with `read_messages`.]')
  if (!isFinished) others.push('[Not finished yet: read the rest with `read_messages`, or see `list_pending`.]')
  return [...lines, ...others].join('\n\n')
}
