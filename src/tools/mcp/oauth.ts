import { randomBytes } from 'node:crypto'
import {
  auth,
  type OAuthAuthorizationServerInformation,
  type OAuthClientInformation,
  type OAuthClientProvider,
  type OAuthTokens,
} from '@ai-sdk/mcp'
import type { Viewer } from '../../access/viewer.ts'
import { lockAgentRow } from '../../agents/existing-agent.ts'
import type { McpServer } from '../../generated/prisma/client.ts'
import { messageOf } from '../../lib/errors.ts'
import { isObject } from '../../lib/json.ts'
import type { Tx } from '../../platform/db.ts'
import type { Platform } from '../../platform/platform.ts'
import { noteDeed } from '../../platform/record.ts'
import type { GuardedHttp } from '../custom/guarded-http.ts'

/** The state of the authorization at one MCP server, which is stored encrypted with the server. */
interface Authorization {
  /** Our client registration at the server, for one redirect URL. */
  client?: OAuthClientInformation
  redirectUrl?: string
  issuer?: OAuthAuthorizationServerInformation
  tokens?: OAuthTokens
  /** An authorization that an admin has begun. */
  pending?: { nonce: string; codeVerifier?: string }
}

/** The state parameter that returns with the browser; encrypted, so that nobody else can create one. */
interface State {
  agentId: string
  name: string
  url: string
  nonce: string
  actorId: string | null
  expiresAt: number
}

/** The answer to a browser that returns from an authorization. */
export interface Returned {
  isAuthorized: boolean
  /** A sentence for the admin. */
  message: string
}

/** Authorizes Parley at MCP servers with OAuth, with one token per server of an agent. */
export interface McpOAuth {
  /** Sends the stored token with requests of runs, and refreshes it. Never begins an authorization. */
  providerFor(server: McpServer): OAuthClientProvider
  /** The same, but begins an authorization if there is no valid token; `authorizationUrl` returns the URL at which it continues. */
  beginning(
    server: McpServer,
    how: { viewer: Viewer; redirectUrl: string },
  ): { provider: OAuthClientProvider; authorizationUrl(): string | null }
  /** Ends an authorization with the parameters that the browser brought to the redirect URL. Never throws. */
  finish(returned: URLSearchParams): Promise<Returned>
}

const STATE_TTL_MS = 15 * 60_000
const STATE_CONTEXT = 'mcp-oauth-state'

/** The context to which the encryption of a server's authorization is bound. */
const contextOf = ({ agentId, name }: Pick<McpServer, 'agentId' | 'name'>) => `mcp-oauth:${agentId}:${name}`

export function createMcpOAuth({ db, secretBox, clock, logger }: Platform, { http }: { http: GuardedHttp }): McpOAuth {
  type Key = Pick<McpServer, 'agentId' | 'name' | 'url'>

  async function read({ agentId, name, url }: Key): Promise<Authorization> {
    const where = { agentId_name: { agentId, name }, url, oauth: 'SERVER' }
    const row = await db.prisma.mcpServer.findUnique({ where, select: { oauthSealed: true } })
    if (row?.oauthSealed == null) return {}
    return JSON.parse(secretBox.open(row.oauthSealed, contextOf({ agentId, name }))) as Authorization
  }

  /**
   * Changes the stored authorization, and runs `within` in the same transaction. Returns the previous authorization;
   * null if nothing was changed because the server was removed or now has another URL.
   */
  async function change(
    key: Key,
    alter: (before: Authorization) => Authorization,
    within: (tx: Tx) => Promise<void> = async () => {},
  ): Promise<Authorization | null> {
    const { agentId, name, url } = key
    return db.transaction(async (tx) => {
      // An update of the agent replaces the rows of its servers, and tokens that were written in the meantime must not be lost.
      await lockAgentRow(tx, agentId)
      const [row] = await tx.$queryRaw<{ oauthSealed: string | null }[]>`
        SELECT "oauthSealed" FROM "McpServer"
        WHERE "agentId" = ${agentId} AND name = ${name} AND url = ${url} AND oauth = 'SERVER' FOR UPDATE`
      if (row === undefined) return null
      const before: Authorization =
        row.oauthSealed === null ? {} : JSON.parse(secretBox.open(row.oauthSealed, contextOf(key)))
      const sealed = secretBox.seal(JSON.stringify(alter(before)), contextOf(key))
      await tx.$executeRaw`UPDATE "McpServer" SET "oauthSealed" = ${sealed} WHERE "agentId" = ${agentId} AND name = ${name}`
      await within(tx)
      return before
    })
  }

  /** A provider that keeps everything in the database, so that any process may use or refresh a token. */
  function providerAt(server: Key, redirectUrl: string): OAuthClientProvider {
    /** The client registration that this provider last used. */
    let clientId: string | null = null
    const save = async (alter: (before: Authorization) => Authorization) => void (await change(server, alter))
    return {
      redirectUrl,
      clientMetadata: {
        client_name: 'Parley',
        redirect_uris: [redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      },
      tokens: async () => (await read(server)).tokens,
      saveTokens: (tokens) => save((before) => ({ ...before, tokens })),
      async clientInformation() {
        const stored = await read(server)
        const client = stored.redirectUrl === redirectUrl || redirectUrl === '' ? stored.client : undefined
        clientId = client?.client_id ?? null
        return client
      },
      isClientInformationDynamicallyRegistered: () => true,
      saveClientInformation(client) {
        clientId = client.client_id
        return save((before) => ({ ...before, client, redirectUrl }))
      },
      authorizationServerInformation: async () => (await read(server)).issuer,
      saveAuthorizationServerInformation: (issuer) => save((before) => ({ ...before, issuer })),
      codeVerifier: async () => (await read(server)).pending?.codeVerifier ?? '',
      saveCodeVerifier: (codeVerifier) =>
        save((before) => ({ ...before, pending: { nonce: '', ...before.pending, codeVerifier } })),
      redirectToAuthorization() {
        throw new Error(AGAIN)
      },
      invalidateCredentials: (scope, context) =>
        save((before) => invalidated(before, scope, { clientId, tokens: context?.tokens ?? null })),
    }
  }

  return {
    providerFor(server) {
      const provider = providerAt(server, '')
      return {
        ...provider,
        async clientInformation() {
          // Without a token nothing can be refreshed, and a run does not register a client.
          if ((await provider.tokens()) === undefined) throw new Error(AGAIN)
          return provider.clientInformation()
        },
        state() {
          throw new Error(AGAIN)
        },
      }
    },

    beginning(server, { viewer, redirectUrl }) {
      let authorizationUrl: string | null = null
      const { agentId, name, url } = server
      const provider: OAuthClientProvider = {
        ...providerAt(server, redirectUrl),
        async state() {
          const nonce = randomBytes(16).toString('base64url')
          await change(server, (before) => ({ ...before, pending: { nonce } }))
          const actorId = viewer.scope === 'HUMAN' ? viewer.id : null
          const state: State = { agentId, name, url, nonce, actorId, expiresAt: clock.now() + STATE_TTL_MS }
          return secretBox.seal(JSON.stringify(state), STATE_CONTEXT)
        },
        redirectToAuthorization(to) {
          if (!['https:', 'http:'].includes(to.protocol))
            throw new Error('The authorization address is not a web page.')
          authorizationUrl = to.href
        },
      }
      return { provider, authorizationUrl: () => authorizationUrl }
    },

    async finish(returned) {
      try {
        const state = stateOf(returned.get('state') ?? '')
        if (state === null || state.expiresAt < clock.now()) return failed(TOO_LATE)
        const { agentId, name, url, nonce, actorId } = state
        // If there are two requests with the same link, only one takes the pending authorization, before it exchanges the code.
        const before = await change(state, ({ pending, ...rest }) =>
          pending === undefined || pending.nonce === nonce ? rest : { ...rest, pending },
        )
        const codeVerifier = before?.pending?.nonce === nonce ? before.pending.codeVerifier : undefined
        if (codeVerifier === undefined) return failed(TOO_LATE)
        const code = returned.get('code')
        if (code === null) {
          const words = returned.get('error_description') ?? returned.get('error') ?? 'no code'
          return failed(`The server did not authorize Parley: ${words.slice(0, 300)}.`)
        }
        const iss = returned.get('iss')
        const issued = iss === null ? {} : { callbackIssuer: iss }
        const deed = { actorId, serviceName: null, action: 'authorizeMcpServer', targetId: agentId, detail: {} }
        let isSaved = false
        const provider: OAuthClientProvider = {
          ...providerAt(state, before?.redirectUrl ?? ''),
          codeVerifier: () => codeVerifier,
          async saveTokens(tokens) {
            const changed = await change(
              state,
              (now) => ({ ...now, tokens }),
              (tx) => noteDeed(tx, deed),
            )
            isSaved = changed !== null
          },
        }
        const options = { serverUrl: url, authorizationCode: code, fetchFn: oauthFetch(http), ...issued }
        await auth(provider, options)
        if (!isSaved)
          return failed(`The MCP server "${name}" was removed or changed in the meantime. Connect to it again.`)
        return {
          isAuthorized: true,
          message: `The MCP server "${name}" is authorized. Close this page and connect again.`,
        }
      } catch (error) {
        logger.warn({ reason: messageOf(error) }, 'could not finish the authorization at an MCP server')
        return failed('The server did not issue a token. Connect again for a new link.')
      }
    },
  }

  function stateOf(text: string): State | null {
    try {
      const state: unknown = JSON.parse(secretBox.open(text, STATE_CONTEXT))
      return isObject(state) ? (state as unknown as State) : null
    } catch {
      return null
    }
  }
}

const AGAIN = 'The server does not accept the stored authorization. An admin has to connect to it again.'
const TOO_LATE = 'This link was already used, or is older than 15 minutes. Connect again for a new one.'

const LONGEST_REQUEST_MS = 10_000

const failed = (message: string): Returned => ({ isAuthorized: false, message })

/**
 * Removes credentials if they are still those that were refused: another process may have new ones. A pending
 * authorization stays.
 */
function invalidated(
  before: Authorization,
  scope: 'all' | 'client' | 'tokens' | 'verifier',
  refused: { clientId: string | null; tokens: OAuthTokens | null },
): Authorization {
  if (scope === 'tokens') {
    const isOther = refused.tokens !== null && before.tokens?.access_token !== refused.tokens.access_token
    const { tokens: _, ...rest } = before
    return isOther ? before : rest
  }
  if (scope === 'verifier' || before.client?.client_id !== refused.clientId) return before
  // The tokens of a client cannot be used by any other client.
  const { client: _client, tokens: _tokens, ...rest } = before
  return rest
}

/** The guarded fetch accepts only text bodies; the OAuth client also sends forms, and sets no time limit. */
export function oauthFetch(http: GuardedHttp): typeof http.fetch {
  return (input, init) => {
    const { body, signal } = init ?? {}
    return http.fetch(input, {
      ...init,
      ...(body instanceof URLSearchParams ? { body: body.toString() } : {}),
      signal: signal ?? AbortSignal.timeout(LONGEST_REQUEST_MS),
    })
  }
}
