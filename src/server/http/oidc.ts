import type { IncomingMessage, ServerResponse } from 'node:http'
import { SIGN_IN } from '../../access/credential-lookups.ts'
import { OidcError } from '../../access/oidc-client.ts'
import type { Rates } from '../../access/rates.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Domain } from '../../graphql/domain.ts'
import { networkOf } from '../../lib/addresses.ts'
import { RateLimitedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { ownPathOf } from '../../rules/own-path.ts'
import { askedOriginOf } from './asked-origin.ts'
import { type AuthBodies, NO_STORE } from './auth.ts'
import { BodyRefusedError } from './body.ts'
import { attemptCookiesOf, browserOf, setAttemptCookie, setSessionCookie } from './cookies.ts'
import { type Handler, sendJson, sendTooMany } from './health.ts'
import { sendNoticePage } from './notice-page.ts'
import { parametersOf, pathOf } from './targets.ts'

/**
 * The paths of sign-in by OpenID Connect: the list of providers, the start and the end of a sign-in with each
 * provider, and the logout.
 */
export const OIDC_PATH = /^\/auth\/oidc(?:\/([^/]+)(?:\/(callback|logout))?)?$/

export interface OidcParts {
  oidc: Domain['oidc']
  signIns: Pick<SignIns, 'redeem'>
  rates: Pick<Rates, 'take'>
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin' | 'to'>
  bodies: Pick<AuthBodies, 'form'>
}

type Reason = Extract<Awaited<ReturnType<Domain['oidc']['finish']>>, { type: 'failed' }>['reason']
type Provider = Domain['oidc']['providers'][number]

const LONGEST_QUERY = 8192
/**
 * How many requests (PARLEY_RATE_REQUESTS) each step of a sign-in counts as. The requests are charged to the
 * client's address.
 */
const BEGIN_POINTS = 5
const FINISH_POINTS = 20
/** The maximum number of sign-ins that a browser may have in progress at the same time, for example in several tabs. */
const MOST_ATTEMPTS = 5

/** Implements sign-in by OpenID Connect. See `OIDC_PATH`. */
export function createOidcHandler({ oidc, signIns, rates, publicUrl, bodies }: OidcParts): Handler {
  const { basePath } = publicUrl
  const startOf = ({ name }: Provider, to: string) =>
    `${basePath}/auth/oidc/${name}${to === '/' ? '' : `?to=${encodeURIComponent(to)}`}`

  const take = (request: IncomingMessage, points: number) =>
    rates.take('requests', `oidc:${networkOf(request.socket.remoteAddress ?? 'unknown')}`, points)

  function fail(response: ServerResponse, provider: Provider, { reason, to }: { reason: Reason; to: string }): void {
    const { status, title, text } = pageOf(reason, provider.label)
    sendNoticePage(response, {
      status,
      title,
      text,
      links: [
        { href: startOf(provider, to), label: 'Try again' },
        { href: `${basePath}/`, label: 'Go to the sign-in page' },
      ],
      ...(status === 503 ? { retryAfterSeconds: 10 } : {}),
    })
  }

  async function begin(request: IncomingMessage, response: ServerResponse, provider: Provider): Promise<void> {
    await take(request, BEGIN_POINTS)
    const to = ownPathOf(parametersOf(request).get('to'))
    const redirectUri = publicUrl.to(`/auth/oidc/${provider.name}/callback`, askedOriginOf(request.headers))
    const begun = await oidc.begin(provider.name, { redirectUri, to })
    if (begun.type === 'failed') return fail(response, provider, { reason: begun.reason, to })
    const former = [...attemptCookiesOf(request.headers).keys()]
    for (const key of former.slice(0, Math.max(0, former.length - MOST_ATTEMPTS + 1)))
      setAttemptCookie(request, response, { key, sealed: null, maxAgeSeconds: 0 }, publicUrl)
    const attempt = { key: keyOf(begun.state), sealed: begun.sealed, maxAgeSeconds: oidc.attemptSeconds }
    setAttemptCookie(request, response, attempt, publicUrl)
    redirect(response, begun.url)
  }

  async function finish(request: IncomingMessage, response: ServerResponse, provider: Provider): Promise<void> {
    await take(request, FINISH_POINTS)
    const query = (request.url ?? '').split('?').slice(1).join('?')
    const key = keyOf(parametersOf(request).get('state') ?? '')
    const sealed = query.length > LONGEST_QUERY ? null : (attemptCookiesOf(request.headers).get(key) ?? null)
    // The provider's code works only once, so the attempt is over and its cookie is deleted.
    if (sealed !== null) setAttemptCookie(request, response, { key, sealed: null, maxAgeSeconds: 0 }, publicUrl)
    const outcome = await oidc.finish(provider.name, { query, sealed, ...browserOf(request) })
    if (outcome.type === 'failed') return fail(response, provider, outcome)
    setSessionCookie(request, response, outcome.cookie, publicUrl)
    redirect(response, basePath + outcome.to)
  }

  /** Handles a back-channel logout, for which the provider sends a signed token. */
  async function logout(request: IncomingMessage, response: ServerResponse, provider: Provider): Promise<void> {
    const address = request.socket.remoteAddress ?? 'unknown'
    const token = (await bodies.form(request)).get('logout_token')
    const verify = async () => (token !== null && (await oidc.logout(provider.name, token)) ? true : null)
    const isDone = await signIns.redeem(address, verify)
    if (isDone === true) response.writeHead(200, NO_STORE).end()
    else
      sendJson(response, 400, {
        error: 'invalid_request',
        error_description: 'The logout_token is missing, invalid or used.',
      })
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, name, step = 'begin'] = OIDC_PATH.exec(pathOf(request)) ?? []
    const method = step === 'logout' ? 'POST' : 'GET'
    // A link preview (HEAD) must neither start nor end a sign-in.
    if (request.method === 'HEAD' && method === 'GET') return void response.writeHead(200, NO_STORE).end()
    if (request.method !== method) return sendJson(response, 405, { error: `Use ${method}.` }, { allow: method })
    if (name === undefined) return sendJson(response, 200, { providers: oidc.providers })
    const provider = oidc.providers.find((one) => one.name === name)
    if (provider === undefined) return sendUnknown(response, basePath)
    if (step === 'logout') return logout(request, response, provider)
    return step === 'callback' ? finish(request, response, provider) : begin(request, response, provider)
  }

  return async (request, response) => {
    try {
      await forRequester(SIGN_IN, () => answer(request, response))
    } catch (error) {
      if (request.destroyed && !request.complete) return
      if (error instanceof RateLimitedError) sendTooMany(response, error)
      else if (error instanceof BodyRefusedError) sendJson(response, error.status, { error: error.message })
      else if (error instanceof OidcError)
        sendJson(response, 503, { error: 'temporarily_unavailable' }, { 'retry-after': '10' })
      else throw error
    }
  }
}

/** Returns the part of a `state` parameter that identifies the cookie of the attempt. */
const keyOf = (state: string) => state.slice(0, 16)

function redirect(response: ServerResponse, location: string): void {
  response.writeHead(303, { location, ...NO_STORE, 'referrer-policy': 'no-referrer' }).end()
}

function sendUnknown(response: ServerResponse, basePath: string): void {
  sendNoticePage(response, {
    status: 404,
    title: 'No such sign-in',
    text: ['This server has no identity provider with this name. Ask its operator for the correct link.'],
    links: [{ href: `${basePath}/`, label: 'Go to the sign-in page' }],
  })
}

/** Returns the page for a failed sign-in. The server's log contains the details. */
function pageOf(reason: Reason, label: string): { status: number; title: string; text: string[] } {
  const notAllowed = 'You may not sign in here'
  switch (reason) {
    case 'attempt':
      return {
        status: 400,
        title: 'This sign-in is no longer valid',
        text: ['The sign-in has expired, was already used, or was started in another browser. Start again.'],
      }
    case 'expired':
      return {
        status: 400,
        title: 'This sign-in is no longer valid',
        text: [`${label} reports that the sign-in has expired or was already used. Start again.`],
      }
    case 'refused':
      return {
        status: 403,
        title: `${label} did not sign you in`,
        text: [
          'You declined, or your account may not use this server.',
          'Try again, and give your consent. If that does not help, ask an admin of this server to give your account access.',
        ],
      }
    case 'unreachable':
      return {
        status: 503,
        title: `${label} cannot be reached`,
        text: [
          'The identity provider did not respond, or returned an error. Try again in a minute.',
          'If you have a token or an invitation, it still works on the sign-in page. If the problem persists, tell an admin of this server.',
        ],
      }
    case 'clock':
      return {
        status: 502,
        title: 'The clocks differ',
        text: [
          `The clock of ${label} differs from the clock of this server. Try again.`,
          'If that does not help, ask the operator of this server to check its clock.',
        ],
      }
    case 'invalid':
      return {
        status: 400,
        title: `The response from ${label} is not valid`,
        text: [
          'The response was not made for this sign-in, so nobody was signed in. Start again.',
          'If that does not help, ask the operator of this server to check its log.',
        ],
      }
    case 'misconfigured':
      return {
        status: 502,
        title: `Sign-in with ${label} is not set up correctly`,
        text: [
          `The settings of this server do not match those at ${label}.`,
          'Ask the operator of this server to check its log, which contains the reason.',
        ],
      }
    case 'no-email':
    case 'unverified-email':
      return {
        status: 403,
        title: notAllowed,
        text: [
          `${label} does not confirm that an email address is yours. Verify your address there, and try again.`,
          'If that does not help, ask an admin of this server.',
        ],
      }
    case 'other-domain':
      return {
        status: 403,
        title: notAllowed,
        text: [
          'Your email address is not in a domain that may sign in. Use another account, or ask an admin of this server to invite you.',
        ],
      }
    case 'no-claim':
      return {
        status: 403,
        title: notAllowed,
        text: [`${label} has not given your account access to this server. Ask an admin of this server for access.`],
      }
  }
}
