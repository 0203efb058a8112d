import { createHash, randomBytes } from 'node:crypto'
import {
  auth,
  type OAuthAuthorizationServerInformation,
  type OAuthClientInformation,
  type OAuthClientProvider,
  type OAuthTokens,
} from '@ai-sdk/mcp'
import { lockAgentRow } from '../../agents/existing-agent.ts'
import { sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import { isObject } from '../../lib/json.ts'
import type { Tx } from '../../platform/db.ts'
import type { Platform } from '../../platform/platform.ts'
import { noteDeed } from '../../stores/audit-store.ts'
import {
  type AuthorizationKey,
  lockAuthorization,
  readAuthorization,
  saveAuthorization,
} from '../../stores/mcp-authorization-store.ts'
import type { GuardedHttp } from '../custom/guarded-http.ts'

/** The state of an authorization at one MCP server. It is stored encrypted. */
interface Authorization {
  /** Parley's client registration at the server, for one redirect URL. */
  client?: OAuthClientInformation
  redirectUrl?: string
  issuer?: OAuthAuthorizationServerInformation
  tokens?: OAuthTokens
  /** An authorization that an admin or a person has begun but not completed. */
  pending?: { nonce: string; codeVerifier?: string }
  /**
   * The process that is refreshing the tokens, and when its claim ends. Only one process may refresh them, because
   * a server may accept a refresh token only once.
   */
  refreshing?: { by: string; until: number }
}

/** The OAuth state parameter, which the browser sends back. It is encrypted, so that only Parley can create one. */
interface State {
  agentId: string
  name: string
  url: string
  nonce: string
  actorId: string | null
  expiresAt: number
  /** The person who authorizes; absent for the server's own authorization. */
  humanId?: string
  /** The hash of a secret in the person's browser. It makes the link useless in another browser. */
  browser?: string
}

/** The result of an authorization, for the browser that returns from it. */
export interface Returned {
  isAuthorized: boolean
  /** A sentence for the admin or for the person. */
  message: string
  /** The person who is now connected to the server; null if there is none. */
  person: ConnectedPerson | null
}

/** A person who has their own authorization at an MCP server of an agent. */
export interface ConnectedPerson {
  agentId: string
  serverName: string
  humanId: string
}

/** A provider that never refreshes tokens in several processes at the same time. */
export interface McpAuthProvider extends OAuthClientProvider {
  /**
   * Sends a request that refreshes the tokens. If another process has just refreshed them, returns a response with the
   * new tokens instead. While another process is refreshing them, waits until it has finished or `signal` aborts.
   */
  refresh(form: URLSearchParams, send: () => Promise<Response>, signal: AbortSignal): Promise<Response>
}

/**
 * Authorizes Parley at MCP servers with OAuth. An agent's server has either one token, or a separate token for each
 * person.
 */
export interface McpOAuth {
  /**
   * Returns a provider for the requests of runs. It sends and refreshes the stored token, and never begins an
   * authorization.
   */
  providerFor(key: AuthorizationKey): McpAuthProvider
  /**
   * Returns a provider that also begins an authorization if there is no valid token. `authorizationUrl` returns the URL
   * at which the authorization continues.
   */
  beginning(
    key: AuthorizationKey,
    how: { actorId: string | null; redirectUrl: string; browser?: BrowserSecret },
  ): { provider: McpAuthProvider; authorizationUrl(): string | null }
  /** Returns the stored access token; null if there is none. */
  accessTokenOf(key: AuthorizationKey): Promise<string | null>
  /**
   * Removes the tokens because the server has rejected `accessToken`, unless another access token has been stored
   * since.
   */
  discard(key: AuthorizationKey, accessToken: string): Promise<void>
  /**
   * Completes an authorization with the parameters that the browser sent to the redirect URL. Never throws.
   * @param browser returns the browser's secret for an attempt
   */
  finish(returned: URLSearchParams, browser: (attempt: string) => string | undefined): Promise<Returned>
}

/** Ties an authorization to the browser in which the person began it. */
export interface BrowserSecret {
  /** Identifies the attempt. */
  attempt: string
  secret: string
}

const STATE_TTL_MS = 15 * 60_000
const STATE_CONTEXT = 'mcp-oauth-state'

/** How long a process may take to refresh tokens. The time is longer than the time limit of a request. */
const REFRESH_LEASE_MS = 15_000
const REFRESH_POLL_MS = 100

/** Returns the context to which the encryption of an authorization is bound. Names of servers contain no colon. */
const contextOf = ({ agentId, name, humanId }: AuthorizationKey) =>
  `mcp-oauth:${agentId}:${name}${humanId === undefined ? '' : `:${humanId}`}`

const hashOf = (secret: string) => createHash('sha256').update(secret).digest('base64url')

type RefreshClaim = { type: 'claimed' } | { type: 'newer' | 'busy'; tokens: OAuthTokens }

export function createMcpOAuth({ db, secretBox, clock, logger }: Platform, { http }: { http: GuardedHttp }): McpOAuth {
  const opened = (key: AuthorizationKey, sealed: string | null): Authorization =>
    sealed === null ? {} : (JSON.parse(secretBox.open(sealed, contextOf(key))) as Authorization)

  const read = async (key: AuthorizationKey) => opened(key, await readAuthorization(db.prisma, key))

  /**
   * Changes the stored authorization, and runs `within` in the same transaction. Returns the authorization before
   * the change. Returns null if the server was removed or now has another URL, or if the person was erased.
   */
  async function change(
    key: AuthorizationKey,
    alter: (before: Authorization) => Authorization,
    within: (tx: Tx) => Promise<void> = async () => {},
  ): Promise<Authorization | null> {
    return db.transaction(async (tx) => {
      // The agent is locked because an update of the agent replaces the rows of its servers, and must not lose the
      // tokens.
      await lockAgentRow(tx, key.agentId)
      const locked = await lockAuthorization(tx, key)
      if (locked === null) return null
      const before = opened(key, locked.sealed)
      const after = alter(before)
      if (after !== before) await saveAuthorization(tx, key, secretBox.seal(JSON.stringify(after), contextOf(key)))
      await within(tx)
      return before
    })
  }

  /**
   * Claims the refresh of the tokens for a process. If the stored tokens are newer than those to be refreshed,
   * returns the stored tokens.
   */
  async function claimRefresh(
    key: AuthorizationKey,
    by: string,
    isNewer: (tokens: OAuthTokens) => boolean,
  ): Promise<RefreshClaim> {
    const claimOf = ({ tokens, refreshing }: Authorization): RefreshClaim => {
      if (tokens !== undefined && isNewer(tokens)) return { type: 'newer', tokens }
      const isBusy = tokens !== undefined && refreshing !== undefined && isNow(refreshing.until, clock.now())
      return isBusy ? { type: 'busy', tokens } : { type: 'claimed' }
    }
    // The first read takes no lock, so that a waiting process does not hold one.
    let claim = claimOf(await read(key))
    if (claim.type !== 'claimed') return claim
    await change(key, (before) => {
      claim = claimOf(before)
      if (claim.type !== 'claimed') return before
      return { ...before, refreshing: { by, until: clock.now() + REFRESH_LEASE_MS } }
    })
    return claim
  }

  const endRefresh = async (key: AuthorizationKey, by: string): Promise<void> =>
    void (await change(key, (before) => (before.refreshing?.by === by ? withoutRefresh(before) : before)))

  /** Creates a provider that stores all its state in the database, so that any process can use or refresh a token. */
  function providerAt(server: AuthorizationKey, redirectUrl: string): McpAuthProvider {
    /** The client registration that this provider used last. */
    let clientId: string | null = null
    /** The access token that another process has already refreshed and stored. */
    let adopted: string | null = null
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
      async saveTokens(tokens) {
        if (tokens.access_token !== adopted) await save((before) => ({ ...withoutRefresh(before), tokens }))
      },
      async refresh(form, send, signal) {
        const by = randomBytes(16).toString('base64url')
        let seen: string | null = null
        for (;;) {
          const claim = await claimRefresh(
            server,
            by,
            (tokens) =>
              tokens.refresh_token !== form.get('refresh_token') || (seen !== null && tokens.access_token !== seen),
          )
          if (claim.type === 'claimed') break
          if (claim.type === 'newer') {
            adopted = claim.tokens.access_token
            return Response.json(claim.tokens)
          }
          seen = claim.tokens.access_token
          await sleep(REFRESH_POLL_MS, signal)
          signal.throwIfAborted()
        }
        try {
          const response = await send()
          // `saveTokens` ends the refresh if it succeeds.
          if (!response.ok) await endRefresh(server, by)
          return response
        } catch (error) {
          await endRefresh(server, by)
          throw error
        }
      },
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
    async accessTokenOf(key) {
      return (await read(key)).tokens?.access_token ?? null
    },

    async discard(key, accessToken) {
      await change(key, ({ tokens, ...rest }) =>
        tokens === undefined || tokens.access_token === accessToken ? rest : { ...rest, tokens },
      )
    },

    providerFor(key) {
      const provider = providerAt(key, '')
      return {
        ...provider,
        async clientInformation() {
          // Without tokens there is nothing to refresh, and a run must not register a client.
          if ((await provider.tokens()) === undefined) throw new Error(AGAIN)
          return provider.clientInformation()
        },
        state() {
          throw new Error(AGAIN)
        },
      }
    },

    beginning(key, { actorId, redirectUrl, browser }) {
      let authorizationUrl: string | null = null
      const { agentId, name, url, humanId } = key
      const provider: McpAuthProvider = {
        ...providerAt(key, redirectUrl),
        async state() {
          const nonce = browser?.attempt ?? randomBytes(16).toString('base64url')
          await change(key, (before) => ({ ...before, pending: { nonce } }))
          const state: State = {
            agentId,
            name,
            url,
            nonce,
            actorId,
            expiresAt: clock.now() + STATE_TTL_MS,
            ...(humanId === undefined ? {} : { humanId }),
            ...(browser === undefined ? {} : { browser: hashOf(browser.secret) }),
          }
          return secretBox.seal(JSON.stringify(state), STATE_CONTEXT)
        },
        redirectToAuthorization(to) {
          if (!['https:', 'http:'].includes(to.protocol)) throw new Error('The authorization URL is not a web address.')
          authorizationUrl = to.href
        },
      }
      return { provider, authorizationUrl: () => authorizationUrl }
    },

    async finish(returned, browserOf) {
      try {
        const state = stateOf(returned.get('state') ?? '')
        if (state === null || state.expiresAt < clock.now()) return failed(TOO_LATE)
        const { nonce, humanId } = state
        if (humanId !== undefined && hashOf(browserOf(nonce) ?? '') !== state.browser) return failed(OTHER_BROWSER)
        // The pending authorization is claimed before the code is exchanged, so that only one of two requests with
        // the same link exchanges the code.
        const before = await change(keyOf(state), ({ pending, ...rest }) =>
          pending === undefined || pending.nonce === nonce ? rest : { ...rest, pending },
        )
        const codeVerifier = before?.pending?.nonce === nonce ? before.pending.codeVerifier : undefined
        if (codeVerifier === undefined) return failed(TOO_LATE)
        const code = returned.get('code')
        if (code === null) {
          const words = returned.get('error_description') ?? returned.get('error') ?? 'no code'
          return failed(`The server did not authorize Parley: ${words.slice(0, 300)}.`)
        }
        const redirectUrl = before?.redirectUrl ?? ''
        if (!(await exchange(state, { code, codeVerifier, redirectUrl, issuer: returned.get('iss') })))
          return failed(`The MCP server "${state.name}" was removed or changed in the meantime. Connect to it again.`)
        return authorized(state)
      } catch (error) {
        logger.warn({ reason: messageOf(error) }, 'could not complete the authorization at an MCP server')
        return failed('The server did not issue a token. Connect again for a new link.')
      }
    },
  }

  /** Exchanges a code for tokens and stores them. Returns false if the server or the person was deleted in the meantime. */
  async function exchange(
    state: State,
    returned: { code: string; codeVerifier: string; redirectUrl: string; issuer: string | null },
  ): Promise<boolean> {
    const { agentId, url, actorId } = state
    const { code, codeVerifier, redirectUrl, issuer } = returned
    const deed = { actorId, serviceName: null, action: 'authorizeMcpServer', targetId: agentId, detail: {} }
    let isSaved = false
    const provider: OAuthClientProvider = {
      ...providerAt(keyOf(state), redirectUrl),
      codeVerifier: () => codeVerifier,
      async saveTokens(tokens) {
        const changed = await change(
          keyOf(state),
          (now) => ({ ...withoutRefresh(now), tokens }),
          (tx) => noteDeed(tx, deed),
        )
        isSaved = changed !== null
      },
    }
    const issued = issuer === null ? {} : { callbackIssuer: issuer }
    await auth(provider, { serverUrl: url, authorizationCode: code, fetchFn: oauthFetch(http), ...issued })
    return isSaved
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

const AGAIN = 'The MCP server does not accept the stored authorization. An admin has to connect to the server again.'
const TOO_LATE = 'This link was already used, or is older than 15 minutes. Connect again for a new one.'

const OTHER_BROWSER =
  'This link belongs to another person, or was opened in another browser. Open the link of your own call again, and finish in the same browser.'

const LONGEST_REQUEST_MS = 10_000

const failed = (message: string): Returned => ({ isAuthorized: false, message, person: null })

function authorized({ agentId, name: serverName, humanId }: State): Returned {
  if (humanId === undefined)
    return {
      isAuthorized: true,
      message: `The MCP server "${serverName}" is authorized. Close this page and connect again.`,
      person: null,
    }
  const message = `You are connected to the MCP server "${serverName}". Close this page: the agent continues.`
  return { isAuthorized: true, message, person: { agentId, serverName, humanId } }
}

/** Returns the key of the authorization that a state belongs to. */
const keyOf = ({ agentId, name, url, humanId }: State): AuthorizationKey => ({
  agentId,
  name,
  url,
  ...(humanId === undefined ? {} : { humanId }),
})

/**
 * Whether a refresh is in progress. An end that is too far in the future is ignored, because it was set by a
 * process whose clock is ahead.
 */
const isNow = (until: number, now: number) => until > now && until <= now + REFRESH_LEASE_MS

const withoutRefresh = ({ refreshing: _, ...rest }: Authorization): Authorization => rest

/**
 * Removes the credentials that the server rejected, unless another process has stored new ones. A pending
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
  // The tokens are removed too, because no other client registration can use them.
  const { client: _client, tokens: _tokens, ...rest } = before
  return rest
}

/** Adapts the guarded fetch to the OAuth client by converting form bodies to text and setting a time limit. */
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
