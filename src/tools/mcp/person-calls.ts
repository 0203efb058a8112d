import type { McpServer } from '../../generated/prisma/client.ts'
import type { JsonObject } from '../../lib/json.ts'
import type { Platform } from '../../platform/platform.ts'
import type { AskedApproval } from '../../rules/approvals.ts'
import { personOfRun, type RunPerson } from '../../rules/person-of-run.ts'
import { type AuthorizationKey, readRunRequesters } from '../../stores/mcp-authorization-store.ts'
import { type ApprovedCall, ToolFailure } from '../tool.ts'
import { accessTo } from './listing-keeper.ts'
import type { McpTools } from './mcp-tools.ts'
import type { McpOAuth } from './oauth.ts'
import type { McpOutcome } from './results.ts'

/**
 * Returns the person whose authorization a call uses. The person is determined for each call, because a think cycle
 * may claim further events.
 */
export type PersonOfCall = () => Promise<RunPerson>

/** Executes calls to tools that each person uses with a separate authorization (`oauth: PERSON`). */
export interface PersonCalls {
  /** Returns the person behind a run. */
  personOf(runId: string): PersonOfCall
  /** Whether the person has connected to a server. False if there is no person behind the call. */
  isConnected(server: McpServer, person: PersonOfCall): Promise<boolean>
  /**
   * Returns the approval that a call waits for until the person has connected; null if the person has connected.
   * @throws ToolFailure if there is no person behind the call
   */
  connection(server: McpServer, tool: PersonalTool, person: PersonOfCall): Promise<AskedApproval | null>
  /**
   * Calls a tool with the person's token.
   * @throws ToolFailure if there is no token, or if the server rejects it
   */
  call(server: McpServer, call: PersonalCall, person: PersonOfCall): Promise<McpOutcome>
}

export interface PersonalTool {
  inputSchema: JsonObject
  versionDigest: string
  /** The approval that a call needs in addition to the connection; null if it needs none. */
  approval: AskedApproval | null
}

export interface PersonalCall extends ApprovedCall {
  /** The server's name for the tool. */
  toolName: string
  input: JsonObject
  timeoutMs: number
}

export function createPersonCalls(
  { db, secretBox, config }: Pick<Platform, 'db' | 'secretBox' | 'config'>,
  { mcp, oauth }: { mcp: McpTools; oauth: McpOAuth },
): PersonCalls {
  return {
    personOf: (runId) => async () => {
      const requesters = await readRunRequesters(db.prisma, runId)
      return requesters === null ? { type: 'none', reason: RUN_DELETED } : personOfRun(requesters)
    },
    async isConnected(server, person) {
      const found = await person()
      return found.type === 'person' && (await oauth.accessTokenOf(keyOf(server, found.humanId))) !== null
    },
    async connection(server, { inputSchema, versionDigest, approval }, person) {
      const humanId = await idOf(person)
      if ((await oauth.accessTokenOf(keyOf(server, humanId))) !== null) return null
      return {
        quorum: 1,
        inputSchema,
        toolDigest: versionDigest,
        grantDigest: null,
        hidesOutput: true,
        answerMs: null,
        patient: true,
        approverIds: [humanId],
        expiresInSeconds: config.limits.approvalWaitSeconds,
        escalateAfterSeconds: null,
        escalateToIds: [],
        connects: { serverName: server.name, next: approval === null ? null : { ...approval } },
      }
    },
    async call(server, { toolName, input, ...use }, person) {
      const humanId = await idOf(person)
      const key = keyOf(server, humanId)
      const token = await oauth.accessTokenOf(key)
      if (token === null) throw notConnected(server)
      // The token to discard if the server rejects the call as unauthorized. It may differ from `token`, because
      // the call may have refreshed the tokens.
      let refused = token
      const outcome = await mcp.call(accessTo(server, { secretBox, oauth, humanId }), toolName, input, {
        ...use,
        refused(sent) {
          refused = sent
        },
      })
      if (outcome.type !== 'failure' || outcome.code !== 'UNAUTHORIZED') return outcome
      await oauth.discard(key, refused)
      throw notConnected(server)
    },
  }
}

const RUN_DELETED = 'The run of this call was deleted, so the person for whom it worked is unknown.'

const keyOf = ({ agentId, name, url }: McpServer, humanId: string): AuthorizationKey => ({
  agentId,
  name,
  url,
  humanId,
})

const notConnected = ({ name }: McpServer) =>
  new ToolFailure(
    'NOT_CONNECTED',
    `The person is no longer connected to the MCP server "${name}". Call the tool again, so that the person is asked to connect.`,
  )

async function idOf(person: PersonOfCall): Promise<string> {
  const found = await person()
  if (found.type === 'none') throw new ToolFailure('NO_PERSON', found.reason)
  return found.humanId
}
