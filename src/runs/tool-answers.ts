import type { ToolCall } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError } from '../lib/errors.ts'
import type { Requester } from '../lib/fair-queue.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import { checkJsonSize } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Approvals } from './approvals.ts'
import type { CallSettling } from './call-settling.ts'
import { forEach, type Timed } from './due.ts'
import { type Answerer, answer, UNANSWERED } from './tool-calls.ts'

export interface ToolAnswerParts {
  settling: CallSettling
  approvals: Pick<Approvals, 'expire'>
  /** Validates a value by a JSON Schema. @returns an error message, or null */
  checkJson(schema: JsonObject, value: Json, requester: Requester): Promise<string | null>
  /** Handles the answer to a call that has timed out. Null: the agent has no use for it. */
  onLateResult(tx: Tx, call: ToolCall, result: Json): Promise<{ afterCommit(): Promise<void> } | null>
}

/** Answers to waiting calls. */
export interface ToolAnswers {
  /**
   * Submits a result, which only the first time has an effect; the last answer of a step resumes
   * its run. A late result is refused, but a persistent agent receives it in its inbox.
   * @throws ConflictError, BadInputError; RateLimitedError if too many results of the requester
   * wait to be validated
   */
  submit(call: ToolCall, result: Json, by: Answerer, requester: Requester): Promise<ToolCall>
  /** Calls that time out, by the database's clock. */
  timed: Timed
}

/** The result, for the model, of a call that timed out. */
function timedOutResult(toolName: string): Json {
  return {
    error: {
      code: 'TIMED_OUT',
      message: `Nobody answered ${toolName} in time. Go on without its result, or ask again.`,
    },
  }
}

export function createToolAnswers({ db }: Platform, parts: ToolAnswerParts): ToolAnswers {
  const { settling, approvals, checkJson, onLateResult } = parts

  async function hearLate(call: ToolCall, result: Json): Promise<boolean> {
    const heard = await db.transaction((tx) => onLateResult(tx, call, result))
    await heard?.afterCommit()
    return heard !== null
  }

  /** Validates before anything is locked, because users' schemas may be slow. */
  async function checkResult(
    { agentId, toolName: name, status }: ToolCall,
    result: Json,
    requester: Requester,
  ): Promise<void> {
    if (status !== 'WAITING') return
    const tool = await db.prisma.agentTool.findUnique({ where: { agentId_name: { agentId, name } } })
    const fault =
      tool?.resultSchema == null ? null : await checkJson(tool.resultSchema as JsonObject, result, requester)
    if (fault !== null) throw new BadInputError(`The result does not match resultSchema: ${fault}`, 'input.result')
  }

  /** Times out a call; does nothing if it is answered, not due yet, or locked. */
  async function expire(id: string): Promise<void> {
    const call = await db.prisma.toolCall.findUnique({ where: { id }, select: { toolName: true, approvalState: true } })
    if (call?.approvalState === 'PENDING') return approvals.expire(id)
    if (call === null) return
    const error = 'Nobody answered in time.'
    const settlement = { status: 'TIMED_OUT' as const, output: timedOutResult(call.toolName), error }
    await settling.settle(id, { audience: 'answerers', isDue: true }, (tx) =>
      answer(tx, id, settlement, { isDue: true }),
    )
  }

  return {
    async submit(call, result, by, requester) {
      checkJsonSize(result, 'input.result')
      const settlement = { status: 'DONE' as const, output: result, error: null }
      await checkResult(call, result, requester)
      const settled = await settling.settle(call.id, { audience: 'answerers' }, (tx) =>
        answer(tx, call.id, settlement, { by }),
      )
      if (settled !== null) return settled
      if (await hearLate(call, result))
        throw new ConflictError(
          'This call has timed out, and its agent has gone on without it. The result was put into the inbox of the agent.',
        )
      throw new ConflictError('This call has already been answered, has timed out, or its run has ended.')
    },
    timed: { what: 'a tool call past its deadline', rows: UNANSWERED, handle: (ids) => forEach(ids, expire) },
  }
}
