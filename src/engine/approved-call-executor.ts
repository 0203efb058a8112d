import type { Discretion } from '../confidentiality/discretion.ts'
import type { KeepFiles } from '../flows/keep-files.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import { ASK_REMOTE_AGENT } from '../lib/foreign-model.ts'
import type { JsonObject } from '../lib/json.ts'
import { onBehalfOf } from '../lib/log-context.ts'
import { checkInput } from '../lib/schema-checks.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { isConfidential } from '../posting/guard.ts'
import { termsOf } from '../rules/approvals.ts'
import type { Settlement } from '../stores/call-store.ts'
import type { RemoteAgents } from '../tools/a2a/remote-agents.ts'
import { type OwnToolParts, ownToolOf } from '../tools/custom/own-tool.ts'
import type { McpToolset } from '../tools/mcp/mcp-toolset.ts'
import { orConfidential } from '../tools/space/failures.ts'
import { type Tool, ToolFailure } from '../tools/tool.ts'
import { recordRefusal } from './refusals.ts'
import { doneWith, failureOf } from './tool-runner.ts'

const CHANGED_TEXT =
  "This tool's address, execution or definition was changed after people were asked for approval, so it was not called. Request approval again if the call is still needed."

/**
 * Checks that people approved this version of the tool. In that case, the input was already validated against the
 * tool's schema when it was generated and after each edit, so it is not validated again.
 * @throws ToolFailure
 */
async function checkIsApproved(tool: Tool, call: ToolCall): Promise<void> {
  const { toolDigest } = termsOf(call) ?? {}
  if (toolDigest !== undefined && toolDigest === tool.versionDigest) return
  if (toolDigest !== undefined || tool.execution !== call.execution) throw new ToolFailure('TOOL_CHANGED', CHANGED_TEXT)
  // Tools had no digests yet when the call was approved, so the input is validated now.
  const fault = await checkInput(tool, call.input, { id: call.runId, isPatient: true })
  if (fault !== null) throw new ToolFailure('BAD_INPUT', fault)
}

export type ApprovedCallParts = OwnToolParts &
  KeepFiles & {
    mcp: McpToolset
    remotes: Pick<RemoteAgents, 'toolFor'>
    discretion: Pick<Discretion, 'toLeave'>
  }

/**
 * Returns a function that executes an approved call with the approved input, if the agent still has the same version of
 * the tool. The function throws only if the database is unavailable. Its result is discarded if the signal has aborted.
 */
export function createApprovedCallExecutor(
  { db, logger }: Platform,
  parts: ApprovedCallParts,
): (call: ToolCall, signal: AbortSignal) => Promise<Settlement> {
  async function toolOf(call: ToolCall): Promise<Tool | undefined> {
    const { agentId, toolName, runId, approverIds } = call
    if (toolName === ASK_REMOTE_AGENT) {
      const agent = await db.prisma.agent.findUnique({ where: { id: agentId } })
      const remote = agent === null ? null : parts.remotes.toolFor(agent)
      if (remote !== null) return remote
    }
    const own = await db.prisma.agentTool.findUnique({ where: { agentId_name: { agentId, name: toolName } } })
    if (own !== null) return ownToolOf(own, parts)
    const servers = await db.prisma.mcpServer.findMany({ where: { agentId }, orderBy: { position: 'asc' } })
    const personId = termsOf(call)?.connects === undefined ? null : (approverIds[0] ?? null)
    return parts.mcp.toolNamed(servers, { toolName, runId, personId })
  }

  async function executeApprovedCall(call: ToolCall, signal: AbortSignal): Promise<Settlement> {
    try {
      const tool = await toolOf(call)
      const input = call.input as JsonObject
      if (tool?.executeApproved === undefined)
        throw new ToolFailure('NO_SUCH_TOOL', `You no longer have the tool ${call.toolName}.`)
      await checkIsApproved(tool, call)
      if (tool.outside !== undefined) orConfidential(await parts.discretion.toLeave(call, tool.outside))
      const returned = await tool.executeApproved(input, { callId: call.id, signal })
      return doneWith(returned, await parts.keepFiles(call, returned.returned ?? [], signal))
    } catch (error) {
      if (isOutage(error)) throw error
      if (isConfidential(error)) await recordRefusal(db.prisma, { ...call, activeSpaceId: null })
      if (!(error instanceof ToolFailure))
        logger.error(
          { toolCallId: call.id, tool: call.toolName, error: messageOf(error) },
          'the tool threw an unexpected error',
        )
      return failureOf(error)
    }
  }
  return (call, signal) =>
    onBehalfOf({ runId: call.runId, agentId: call.agentId }, () => executeApprovedCall(call, signal))
}
