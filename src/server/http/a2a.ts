import type { ServerResponse } from 'node:http'
import { cardOf } from '../../doors/a2a/card.ts'
import { createA2aDoor, staysOpen, type Target } from '../../doors/a2a/door.ts'
import type { Operations } from '../../doors/tasks/operations.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { askedOriginOf } from './asked-origin.ts'
import { type DoorHttp, type DoorRequest, preflight, streamOf } from './door-http.ts'
import { type Handler, sendJson } from './health.ts'
import { pathOf } from './targets.ts'

const CARD = '/.well-known/agent-card.json'
/** The card of the server, and the addresses of the server, of an agent, or of a space, with their cards. */
export const A2A_PATH =
  /^(\/\.well-known\/agent-card\.json|\/a2a(\/(agents|spaces)\/([^/]+))?(\/\.well-known\/agent-card\.json)?)$/

const SERVER = { id: 'spaces', name: 'Parley', description: 'Spaces of people and agents. Name a space as contextId.' }

/** `/a2a/…`: see `src/doors/a2a`. */
export function createA2aHandler({
  operations,
  http,
  publicUrl,
  maxResponseBytes,
}: {
  operations: Operations
  http: DoorHttp
  publicUrl: Pick<PublicUrl, 'to'>
  maxResponseBytes: number
}): Handler {
  const door = createA2aDoor({ operations, maxResponseBytes, onError: http.onError })

  async function serve({ path, url, ...request }: DoorRequest, response: ServerResponse): Promise<void> {
    const target = targetOf(path)
    if (!path.endsWith(CARD)) {
      const answer = await door.answer(target, request, streamOf(response))
      // A stream that has begun has ended by now.
      if (answer !== null && !response.headersSent) sendJson(response, 200, answer)
      else if (!response.writableEnded) response.destroy()
      return
    }
    const card = await door.card(target, request.caller, url.slice(0, -CARD.length))
    if (card === null) sendJson(response, 404, { error: 'There is no such agent or space.' })
    else sendJson(response, 200, card)
  }

  const handle = http.handlerOf({ serve, staysOpen, reads: (path) => path.endsWith(CARD) })
  return (request, response) => {
    // The card of the server names nobody, and tells where to sign in.
    if (pathOf(request) !== CARD) return handle(request, response)
    response.setHeader('access-control-allow-origin', '*')
    if (request.method === 'OPTIONS') return preflight(response)
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return sendJson(response, 405, { error: 'Use GET.' }, { allow: 'GET, HEAD' })
    sendJson(response, 200, cardOf(SERVER, publicUrl.to('/a2a', askedOriginOf(request.headers))))
  }
}

function targetOf(path: string): Target {
  const [, , , kind, id] = A2A_PATH.exec(path) ?? []
  if (kind === undefined || id === undefined) return { type: 'server' }
  return { type: kind === 'agents' ? 'agent' : 'space', id }
}
