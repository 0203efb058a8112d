import { auth } from '@ai-sdk/mcp'
import { openHeaders } from '../../agents/outgoing-request.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { GuardedHttp } from '../custom/guarded-http.ts'
import { withoutValues } from '../custom/header-removal.ts'
import { createMcpConnection } from './connection.ts'
import { type BrowserSecret, type ConnectedPerson, type McpOAuth, oauthFetch } from './oauth.ts'

export type BegunAuthorization =
  /** The URL at which the person authorizes in a browser. */
  | { type: 'begun'; url: string }
  /** The person has already authorized. */
  | { type: 'connected' }
  /** A sentence for the person. */
  | { type: 'failed'; message: string }

/** Begins the authorization of a person at an MCP server. */
export interface PersonAuthorization {
  /** @param browser binds the authorization to the person's browser */
  beginForPerson(
    person: ConnectedPerson,
    input: { redirectUrl: string; browser: BrowserSecret },
  ): Promise<BegunAuthorization>
}

const LIST_TIMEOUT_MS = 10_000

export function createPersonAuthorization(
  { db, secretBox, logger }: Platform,
  { http, oauth }: { http: GuardedHttp; oauth: McpOAuth },
): PersonAuthorization {
  return {
    async beginForPerson({ agentId, serverName: name, humanId }, { redirectUrl, browser }) {
      const server = await db.prisma.mcpServer.findUnique({ where: { agentId_name: { agentId, name } } })
      if (server?.oauth !== 'PERSON')
        return {
          type: 'failed',
          message: `The agent no longer has the MCP server "${name}" with a separate authorization for each person.`,
        }
      const { url } = server
      const key = { agentId, name, url, humanId }
      if ((await oauth.accessTokenOf(key)) !== null) return { type: 'connected' }
      const begun = oauth.beginning(key, { actorId: humanId, redirectUrl, browser })
      const headers = openHeaders('mcp', server, secretBox)
      const connection = createMcpConnection({ url, headers, authProvider: begun.provider }, http)
      try {
        // The server refuses this request, and says in the response which authorization server it uses.
        await connection.list(LIST_TIMEOUT_MS).catch(() => {})
        if (begun.authorizationUrl() === null) await auth(begun.provider, { serverUrl: url, fetchFn: oauthFetch(http) })
      } catch (error) {
        const reason = withoutValues(headers)(messageOf(error))
        logger.warn({ agentId, serverName: name, reason }, 'could not begin an authorization at an MCP server')
      } finally {
        await connection.disconnect()
      }
      const authorizationUrl = begun.authorizationUrl()
      if (authorizationUrl !== null) return { type: 'begun', url: authorizationUrl }
      return {
        type: 'failed',
        message: `The MCP server "${name}" did not return an authorization URL. Try again later.`,
      }
    },
  }
}
