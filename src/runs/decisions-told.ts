import type { ToolCall } from '../generated/prisma/client.ts'
import { cutSaying, type Json, oneLine } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { digestOf, termsOf } from './approval.ts'

/** The decisions on a call, as its agent receives them. */
export interface ToldDecisions {
  toolCallId: string
  toolName: string
  /** One line, with names and reasons in JSON quotes. */
  text: string
}

type DecidedCall = Pick<ToolCall, 'id' | 'toolName' | 'approval' | 'approvalState' | 'input'>

const LONGEST_INPUT = 4000

/** Returns the decisions on those of the calls that needed approval and are decided. */
export async function decisionsOn(tx: Tx, calls: readonly DecidedCall[]): Promise<ToldDecisions[]> {
  const decided = calls.filter(({ approvalState }) => approvalState !== null && approvalState !== 'PENDING')
  if (decided.length === 0) return []
  const rows = await tx.$queryRaw<{ toolCallId: string; name: string; approve: boolean; reason: string | null }[]>`
    SELECT d."toolCallId", h.name, d.approve, d.reason FROM "Decision" d JOIN "Entity" h ON h.id = d."humanId"
    WHERE d."toolCallId" = ANY(${decided.map(({ id }) => id)}::text[]) AND d.counted ORDER BY d.at, d."humanId"`
  return decided.map((call) => {
    const said = rows.filter(({ toolCallId }) => toolCallId === call.id)
    return { toolCallId: call.id, toolName: call.toolName, text: textOf(call, said) }
  })
}

function textOf(call: DecidedCall, said: { name: string; approve: boolean; reason: string | null }[]): string {
  const names = (approve: boolean) =>
    said
      .filter((one) => one.approve === approve)
      .map(
        ({ name, reason }) =>
          `${JSON.stringify(oneLine(name))}${reason === null ? '' : ` (${JSON.stringify(reason)})`}`,
      )
      .join(', ')
  switch (call.approvalState) {
    case 'APPROVED':
      return `approved by ${names(true)}${editedText(call)}`
    case 'DENIED':
      return `denied by ${names(false)}`
    case 'EXPIRED':
      return names(true) === '' ? 'expired, undecided' : `expired, approved only by ${names(true)}`
    default:
      return 'canceled'
  }
}

/** The input with which the call was executed instead of the generated one. */
function editedText(call: DecidedCall): string {
  const terms = termsOf(call)
  if (terms === null || digestOf(call.input as Json) === terms.writtenDigest) return ''
  return `, with another input than yours: ${cutSaying(JSON.stringify(call.input), LONGEST_INPUT)}`
}
