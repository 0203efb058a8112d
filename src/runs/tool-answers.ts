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
  /** What is wrong with a value, by a JSON Schema, in words; null where nothing is. */
  checkJson(schema: JsonObject, value: Json, requester: Requester): Promise<string | null>
  /** A call that had timed out was answered after all. Null where that is of no use to anybody. */
  onLateResult(tx: Tx, call: ToolCall, result: Json): Promise<{ afterCommit(): Promise<void> } | null>
}

/** The answers to calls that wait. */
export interface ToolAnswers {
  /**
   * Counts once, however often it comes; the last answer of a step resumes its run. What comes after the call's time is refused
   * too, but a persistent agent finds it in its inbox. @throws ConflictError, BadInputError; RateLimitedError if too many results of the
   * requester wait to be checked
   */
  submit(call: ToolCall, result: Json, by: Answerer, requester: Requester): Promise<ToolCall>
  /** Calls whose time is up, by the database's clock. */
  timed: Timed
}

/** What a model gets for a call that nobody answered in time. */
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

  /** Before anything is locked: others' schemas take their time. */
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

  /** Settles a call whose time is up; does nothing for one that is answered, not due yet, or in somebody's hands. */
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
