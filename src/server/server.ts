import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, type Socket, Server as TcpServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createSignIns, type SignIns } from '../access/sign-ins.ts'
import type { StartLink } from '../access/start-link.ts'
import type { Config } from '../config.ts'
import { createPaces, type PacesOptions } from '../delivery/backpressure.ts'
import type { RunJournal } from '../delivery/feeds/run-replay.ts'
import { createHub } from '../delivery/hub.ts'
import { createStreams, type OwnStreams } from '../delivery/streams.ts'
import { createSubscribe } from '../delivery/subscribe.ts'
import { mostSubscriptions } from '../delivery/subscription-limits.ts'
import { A2A_PATH } from '../doors/a2a/card.ts'
import { createA2aDoor } from '../doors/a2a/door.ts'
import { createActivity } from '../doors/activity.ts'
import { createAgUiDoor } from '../doors/ag-ui/door.ts'
import { createConversing } from '../doors/conversing.ts'
import { createMcpDoor, MCP_PATH } from '../doors/mcp/door.ts'
import { createResponsesDoor } from '../doors/responses/door.ts'
import type { Domain } from '../graphql/domain.ts'
import { createMasking } from '../graphql/masking.ts'
import { schema } from '../graphql/schema.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { isOutage, isOverload } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { forwardedOriginOf } from './http/asked-origin.ts'
import { createAuthBodies, createAuthHandlers } from './http/auth.ts'
import { createAuthentication } from './http/authentication.ts'
import { createBodyReader } from './http/body.ts'
import { createConsole, isConsolePath } from './http/console.ts'
import { createCallers } from './http/door-callers.ts'
import { createDoorDocuments } from './http/door-documents.ts'
import { createDoors, type Doors } from './http/doors.ts'
import { createEventStreams } from './http/event-streams.ts'
import { createFileHandler, FILES_PATH, LONGEST_UPLOAD_MS } from './http/files.ts'
import { createGraphql, GRAPHQL_PATH } from './http/graphql.ts'
import { createHealth, type Handler, sendJson } from './http/health.ts'
import { createInvitationHandlers, INVITATION_PATH, INVITATION_SESSION_PATH } from './http/invitations.ts'
import { listen } from './http/listening.ts'
import { createMailLinkHandlers, MAIL_LINK_PATH } from './http/mail-links.ts'
import { createMcpAuthorization, MCP_CALLBACK_PATH, MCP_CONNECT_PATH } from './http/mcp-authorization.ts'
import { createMetrics } from './http/metrics.ts'
import { sendNoticePage } from './http/notice-page.ts'
import { createOidcHandler, OIDC_PATH } from './http/oidc.ts'
import { createOrigins, type Origins } from './http/origins.ts'
import { createGraphiql, sendNotFound, wantsPage } from './http/pages.ts'
import { pathToTell, underItsId } from './http/request-ids.ts'
import { addedPrefixOf, pathOf, rewriteTarget } from './http/targets.ts'
import { closeUnreadBody, limitBodyTime } from './http/unread-body.ts'
import { createWebhookHandler, WEBHOOK_PATH } from './http/webhooks.ts'
import { createRequestBytes } from './request-bytes.ts'
import { createResponsesInFlight } from './responses-in-flight.ts'
import { createSockets, type Sockets } from './sockets/sockets.ts'

/** The parts of the application that the server needs. */
export interface Served {
  platform: Platform
  domain: Domain
  announcer: Pick<Announcer, 'watch'>
  journal: RunJournal
  startLink: Pick<StartLink, 'redeem'>
}

export interface ServerOptions {
  app: Served
  config: Config
  /** The interval at which sockets are pinged. */
  keepAliveMs?: number
  /** If absent, the server uses the default limits on the delivery rate. */
  pacing?: PacesOptions
}

export interface RunningServer {
  /** The URL, without a path, at which a browser on this machine reaches the server. */
  url: string
  port: number
  /**
   * Shuts the server down. With `drain`, reports that it is not ready until the prober has received this status.
   * Then accepts no new work, waits up to 5 s for requests and operations, and closes sockets with 1001. Without
   * `drain`, closes all connections immediately.
   */
  close(options?: { drain: boolean }): Promise<void>
}

const DRAIN_MS = 5000
/** How long idle connections stay open after the server has stopped accepting new connections. */
const IDLE_MS = 500
/** How long a client may take to close its side of the connection after its upgrade was refused. */
const REFUSED_LINGER_MS = 3000
/** Timeouts for the headers of a request and for the whole request. */
const REQUEST_TIMES = { headersTimeout: 10_000, requestTimeout: LONGEST_UPLOAD_MS, connectionsCheckingInterval: 1000 }
/** The timeout for a whole request that is not an upload. */
const LONGEST_BODY_MS = 30_000
/**
 * How long idle connections stay open. The time is longer than in most proxies, so that the proxy closes the
 * connection first.
 */
const KEEP_ALIVE_MS = 65_000

/**
 * Starts the server for the configured role: all endpoints, or only health and metrics for a worker.
 * @throws Error with a one-line message if the port is in use
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { app, config } = options
  const { platform } = app
  const { logger } = platform
  let draining = false
  let closing = false
  /** Whether connections are to be closed as soon as they are idle. */
  let closesIdle = false
  const isApi = config.role !== 'worker'
  const signIns = createSignIns(app.domain, logger)
  const endpoint = isApi ? createEndpoint(options, signIns) : null
  const { route, health } = createRoutes(app, signIns, endpoint, () => draining)

  const answer = answering(route, logger)
  const compareOrigin = createOriginComparison(platform)
  const { basePath } = platform.publicUrl
  const server = createServer(REQUEST_TIMES, (request, response) => {
    rewriteTarget(request, basePath)
    compareOrigin(request)
    // A response that ends during shutdown leaves its connection idle, so the connection is closed too.
    response.once('close', () => closesIdle && setImmediate(() => server.closeIdleConnections()))
    if (closing) response.setHeader('connection', 'close')
    closeUnreadBody(request, response)
    if (!FILES_PATH.test(pathOf(request))) limitBodyTime(request, response, LONGEST_BODY_MS)
    void answer(request, response)
  })
  server.keepAliveTimeout = KEEP_ALIVE_MS
  const streaming = trackStreaming(server)
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    rewriteTarget(request, basePath)
    if (closing || endpoint === null || pathOf(request) !== GRAPHQL_PATH) return refuse(socket, closing ? 503 : 404)
    if (!endpoint.origins.allows(request)) return refuse(socket, 403)
    endpoint.sockets.upgrade(request, socket, head)
  })
  await listen(server, config)
  const { port } = server.address() as AddressInfo
  const url = `http://${nameOf(config.host)}:${port}`
  platform.publicUrl.listensAt(url)

  return {
    url,
    port,
    async close({ drain } = { drain: true }) {
      draining = true
      if (drain) await health.drainIsKnown()
      const serveAccepted = await acceptWaiting(server)
      closing = true
      const closed = stopAccepting(server)
      serveAccepted()
      const closeIdle = () => {
        closesIdle = true
        server.closeIdleConnections()
      }
      await Promise.all([
        drain ? Promise.race([closed, sleep(IDLE_MS)]).then(closeIdle) : null,
        endpoint?.drainStreams(drain ? DRAIN_MS : 0).then(() => destroyAll(streaming)),
        endpoint?.sockets.close(drain ? DRAIN_MS : 0),
        drain ? Promise.race([closed, sleep(DRAIN_MS)]) : null,
      ])
      server.closeAllConnections()
      await closed
      // This also stops the timers of the HTTP server.
      server.close()
      await endpoint?.close()
    },
  }
}

/**
 * During shutdown, the server keeps accepting connections until none has arrived for this time, or until
 * LAST_ACCEPTS_MS have passed.
 */
const QUIET_MS = 20
const LAST_ACCEPTS_MS = 1000
/** If a turn of the event loop takes longer than this, further connections may have arrived during it. */
const SHORT_TURN_MS = 0.5

/**
 * Accepts the connections that are already waiting, which the kernel would otherwise reset. Does not read from them
 * yet, because handling their requests would delay accepting the others. Returns a function that hands the
 * connections to the server.
 */
async function acceptWaiting(server: Server): Promise<() => void> {
  const listeners = server.listeners('connection') as ((socket: Socket) => void)[]
  const held: Socket[] = []
  Object.assign(server, { pauseOnConnect: true })
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => void held.push(socket))
  const startedAt = performance.now()
  let quietSince = startedAt
  for (let now = startedAt; now - quietSince < QUIET_MS && now - startedAt < LAST_ACCEPTS_MS; ) {
    const [before, count] = [now, held.length]
    await nextTurn()
    now = performance.now()
    if (held.length > count || now - before > SHORT_TURN_MS) quietSince = now
  }
  return () => {
    server.removeAllListeners('connection')
    for (const listener of listeners) server.on('connection', listener)
    for (const socket of held) {
      server.emit('connection', socket)
      socket.resume()
    }
  }
}

/**
 * Stops accepting new connections. Unlike `server.close`, leaves idle connections open, because a proxy may have
 * sent a request that has not been read yet. Resolves once all connections are closed.
 */
const stopAccepting = (server: Server) => new Promise((resolve) => TcpServer.prototype.close.call(server, resolve))

/**
 * Returns a check for each request. The check logs a warning once if clients reach a proxy at another origin than
 * PARLEY_PUBLIC_URL.
 */
function createOriginComparison({ publicUrl, logger }: Platform): (request: IncomingMessage) => void {
  const { origin } = publicUrl
  if (origin === null) return () => {}
  let hasTold = false
  return ({ headers }) => {
    if (hasTold) return
    const forwarded = forwardedOriginOf(headers, origin)
    if (forwarded === null || forwarded === origin) return
    hasTold = true
    logger.warn(
      { publicUrl: origin, forwarded },
      'a proxy forwards requests for an address other than PARLEY_PUBLIC_URL, with which links begin: correct PARLEY_PUBLIC_URL, or the headers X-Forwarded-Proto and X-Forwarded-Host of the proxy',
    )
  }
}

/** Handles each request, and responds with 500 if the handler fails. */
function answering(route: (request: IncomingMessage) => Handler, logger: Platform['logger']): Handler {
  return underItsId(async (request, response) => {
    try {
      await route(request)(request, response)
    } catch (error) {
      logger.error({ path: pathToTell(request), error: messageOf(error) }, 'a request failed')
      if (response.headersSent) response.destroy()
      else sendJson(response, 500, { error: 'Internal server error. Report the X-Request-Id header to the operator.' })
    }
  }, logger)
}

/** The handlers of a process that serves the API. */
interface Endpoint {
  handle: Handler
  /** Serves the page and the assets of the console. */
  console: Handler
  /** Handles the pages of invitations and of the start link, and the sign-in with an invitation. */
  invitation: { link: Handler; session: Handler }
  /** The handlers for sign-in and sign-out, by path. */
  auth: Record<string, Handler>
  /** Handles the link in an email. */
  mailLink: Handler
  mcpAuthorization: { connect: Handler; callback: Handler }
  /** Documents that describe the protocol endpoints to clients, by path. */
  doorDocuments: Record<string, Handler>
  oidc: Handler
  files: Handler
  doors: Doors
  sockets: Sockets
  /** Ends event streams and the streams of protocol endpoints. See EventStreams and Doors. */
  drainStreams(timeoutMs: number): Promise<void>
  origins: Origins
  close(): Promise<void>
}

/** Whether an error occurred because the database is too busy or does not respond. */
const isUnavailable = (error: unknown): boolean => isOverload(error) || isOutage(error)

function createEndpoint({ app: served, config, keepAliveMs, pacing }: ServerOptions, signIns: SignIns): Endpoint {
  const { platform, domain, announcer, journal, startLink } = served
  const { limits } = config
  const { logger, metrics, publicUrl } = platform
  const allowedOrigins =
    publicUrl.origin === null ? config.allowedOrigins : [...config.allowedOrigins, publicUrl.origin]
  const origins = createOrigins(allowedOrigins, logger)
  const maskError = createMasking(platform, isOverload)
  const streams: OwnStreams = createStreams({ platform, domain, announcer, journal })
  const leavePresence = domain.presence.open()
  const hub = createHub(metrics)
  const { maxSocketsPerViewer, maxResponseBytes } = limits
  const maxSubscriptionsPerViewer = mostSubscriptions(maxSocketsPerViewer)
  const subscribe = createSubscribe({
    domain,
    streams,
    // A subscription only reads events, so its client can resume after a database outage as well as after an overload.
    maskError: createMasking(platform, isUnavailable),
    isUnavailable,
    hub,
    paces: createPaces(pacing),
    maxSubscriptionsPerViewer,
    maxResponseBytes,
  })
  const bodies = createBodyReader()
  const requestBytes = createRequestBytes(domain.rates)
  const inFlight = createResponsesInFlight(maxResponseBytes)
  const authentication = createAuthentication(signIns, { origins, publicUrl })
  const graphql = createGraphql({
    domain,
    authentication,
    schema,
    streams,
    maskError,
    subscribe,
    allowedOrigins,
    bodies,
    requestBytes,
    maxResponseBytes,
    inFlight,
  })
  const sockets = createSockets({
    graphql,
    maskError,
    signIns,
    watchViewer: streams.watchViewer,
    maxSocketsPerViewer,
    requestBytes,
    keepAliveMs,
    logger,
    metrics,
  })
  const graphiql = createGraphiql(publicUrl.basePath)
  const page = createConsole(publicUrl.basePath)
  const pipeline = { graphql, authentication, maskError, bodies, requestBytes, rates: domain.rates }
  const { watchToken, watchViewer } = streams
  const authBodies = createAuthBodies()
  const mailLinks = createMailLinkHandlers({
    ...domain,
    page,
    signIns,
    authentication,
    origins,
    publicUrl,
    bodies: authBodies,
  })
  const conversing = createConversing(domain)
  const activity = createActivity()
  const onError = (error: Error) => logger.error({ error: messageOf(error) }, 'a request to a protocol endpoint failed')
  const doors = createDoors({
    callerOf: createCallers({ graphql, maskError }),
    maskError,
    signIns,
    origins,
    publicUrl,
    bodies,
    requestBytes,
    watchToken,
    maxResponseBytes,
    inFlight,
    rates: domain.rates,
    maxStreamsPerViewer: maxSocketsPerViewer,
    doors: {
      '/ag-ui': createAgUiDoor(conversing, activity),
      '/v1': createResponsesDoor(conversing, activity),
      [MCP_PATH]: createMcpDoor({ conversing, maxResponseBytes, onError }),
      [A2A_PATH]: createA2aDoor({ conversing, maxResponseBytes, onError, taskPushes: domain.taskPushes }),
    },
  })
  const eventStreams = createEventStreams({ ...pipeline, watchViewer, maxStreamsPerViewer: maxSocketsPerViewer })
  return {
    origins,
    drainStreams: async (timeoutMs) =>
      void (await Promise.all([eventStreams.drain(timeoutMs), doors.drain(timeoutMs)])),
    handle(request, response) {
      if (wantsPage(request)) return graphiql(request, response)
      // Requests from other origins get a response, but browsers hide it without an explanation (see corsOf).
      // `allows` logs the reason.
      origins.allows(request)
      if (eventStreams.concerns(request)) {
        origins.welcome(request, response)
        return eventStreams.handle(request, response)
      }
      return graphql(request, response)
    },
    console: page,
    invitation: createInvitationHandlers({ ...domain, startLink, page, origins, publicUrl, signIns }),
    auth: {
      ...createAuthHandlers({
        sessions: domain.sessions,
        rates: domain.rates,
        signIns,
        authentication,
        origins,
        publicUrl,
        bodies: authBodies,
        ways: { mail: domain.mailLinks.isConfigured },
      }),
      '/auth/mail': mailLinks.request,
    },
    mailLink: mailLinks.link,
    doorDocuments: createDoorDocuments({ publicUrl, issuers: issuersOf(config) }),
    mcpAuthorization: createMcpAuthorization({ domain, signIns, rates: domain.rates, publicUrl }),
    oidc: createOidcHandler({ oidc: domain.oidc, signIns, rates: domain.rates, publicUrl, bodies: authBodies }),
    files: createFileHandler({
      files: domain.files,
      resumableUploads: domain.resumableUploads,
      rates: domain.rates,
      authentication,
      origins,
      logger,
      mostBytes: limits.maxFileBytes,
    }),
    doors,
    sockets,
    async close() {
      await leavePresence()
      await streams.close()
    },
  }
}

/**
 * Returns the issuer of the access tokens that the server accepts, for OAuth clients. Identity providers are not
 * included, because their tokens can only start sessions.
 */
function issuersOf({ jwt: { issuer, jwksUrl } }: Pick<Config, 'jwt'>): string[] {
  return jwksUrl !== null && issuer !== null && URL.canParse(issuer) ? [issuer] : []
}

/** Maps paths to handlers. */
function createRoutes(
  { platform, domain }: Served,
  signIns: SignIns,
  endpoint: Endpoint | null,
  isDraining: () => boolean,
) {
  const { db, log, clock, metrics, logger, publicUrl } = platform
  const health = createHealth({ database: () => db.fault(), realtime: () => log.healthy(), isDraining, clock })
  const figures = createMetrics({
    others: metrics,
    signIns,
    sockets: () => endpoint?.sockets.count() ?? 0,
    followed: () => log.stats(),
  })
  const webhook = createWebhookHandler(domain)
  const byPath: Record<string, Handler> = {
    '/health/live': health.live,
    '/health/ready': health.ready,
    '/metrics': figures,
    ...(endpoint === null
      ? {}
      : { [GRAPHQL_PATH]: endpoint.handle, [MCP_CALLBACK_PATH]: endpoint.mcpAuthorization.callback }),
  }
  const isServed = (path: string) => path in byPath || isConsolePath(path)
  let hasToldPrefix = false
  const notFound: Handler = (request, response) => {
    const prefix = endpoint === null ? null : addedPrefixOf(pathOf(request), isServed)
    const hint =
      prefix === null
        ? null
        : `If a proxy adds the prefix ${prefix}, set PARLEY_PUBLIC_URL to the address with this prefix.`
    if (hint !== null && !hasToldPrefix) {
      logger.warn({ path: pathToTell(request) }, `a request did not match any path. ${hint}`)
      hasToldPrefix = true
    }
    if (endpoint === null || !wantsPage(request)) return sendNotFound(response, hint)
    sendNoticePage(response, {
      status: 404,
      title: 'Page not found',
      text: ['There is no page at this address. The address may be incomplete, or the page was removed.'],
      hint: hint === null ? null : `For operators: ${hint}`,
      links: [{ href: `${publicUrl.basePath}/`, label: 'Go to your spaces' }],
    })
  }
  function handlerIn(served: Endpoint, { method }: IncomingMessage, path: string): Handler | null {
    if (method === 'POST' && WEBHOOK_PATH.test(path)) return webhook
    if (INVITATION_PATH.test(path)) return served.invitation.link
    if (INVITATION_SESSION_PATH.test(path)) return served.invitation.session
    if (MAIL_LINK_PATH.test(path)) return served.mailLink
    if (MCP_CONNECT_PATH.test(path)) return served.mcpAuthorization.connect
    if (OIDC_PATH.test(path)) return served.oidc
    if (FILES_PATH.test(path)) return served.files
    return served.auth[path] ?? served.doorDocuments[path] ?? served.doors.handlerOf(path)
  }
  const route = (request: IncomingMessage): Handler => {
    if (!hasUsableHost(request)) return refuseHost
    const path = pathOf(request)
    const ofEndpoint = endpoint && handlerIn(endpoint, request, path)
    if (ofEndpoint !== null) return ofEndpoint
    const handler = byPath[path] ?? (isConsolePath(path) ? endpoint?.console : undefined)
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    return handler === undefined || (path !== GRAPHQL_PATH && !isRead) ? notFound : handler
  }
  return { route, health }
}

/**
 * Rejects Host headers that are not valid in a URL. Node accepts any Host header, but GraphQL Yoga fails on an
 * invalid one, with an error that contains file paths.
 */
function hasUsableHost({ headers }: IncomingMessage): boolean {
  return headers.host === undefined || URL.canParse(`http://${headers.host}`)
}

const refuseHost: Handler = (_, response) => sendJson(response, 400, { error: 'The Host header is malformed.' })

function refuse(socket: Duplex, status: 403 | 404 | 503): void {
  const reason = { 403: 'Forbidden', 404: 'Not Found', 503: 'Service Unavailable' }[status]
  socket.on('error', () => {})
  socket.end(`HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), REFUSED_LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

function destroyAll(responses: Iterable<ServerResponse>): void {
  for (const response of responses) response.destroy()
}

/** Tracks responses that stay open until the client closes them. */
function trackStreaming(server: Server): Set<ServerResponse> {
  const streaming = new Set<ServerResponse>()
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (!/text\/event-stream|multipart\/mixed/.test(String(request.headers.accept ?? ''))) return
    streaming.add(response)
    response.once('close', () => streaming.delete(response))
  })
  return streaming
}

/** Returns the host name to show: localhost for all local addresses. */
function nameOf(host: string): string {
  if (['127.0.0.1', '0.0.0.0', '::', '::1', 'localhost'].includes(host)) return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}
