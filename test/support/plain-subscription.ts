import { type ExecutionResult, execute, parse } from 'graphql'
import type { Viewer } from '../../src/access/viewer.ts'
import type { Application } from '../../src/app.ts'
import type { LogEntry } from '../../src/realtime/event-log.ts'
import { createContext } from '../../src/schema/context.ts'
import { schema } from '../../src/schema/schema.ts'
import type { Streams } from '../../src/schema/streams.ts'
import { createMasking, formatError } from '../../src/server/http/masking.ts'

/** What one viewer is told of a space, and what ended it: see `reexecute`. */
export interface PlainSubscription {
  seen: ExecutionResult[]
  ended: string | null
  stop(): void
}

/**
 * `spaceMessages` as it is meant: the log followed for one viewer alone, and each event executed for that viewer by itself. It
 * shares nothing with anybody, and nothing with how the server delivers.
 */
export function reexecute(
  { domain, platform }: Pick<Application, 'domain' | 'platform'>,
  viewer: Viewer,
  query: string,
  variables: { spaceId: string; after: string | null },
): PlainSubscription {
  const { spaceId, after } = variables
  const over = new AbortController()
  const side: PlainSubscription = { seen: [], ended: null, stop: () => over.abort() }
  const mask = createMasking(platform)
  const document = parse(query)

  async function tell(event: object): Promise<void> {
    const contextValue = createContext({
      domain,
      streams: {} as Streams,
      viewer,
      takesCursors: false,
      onSlow: () => {},
    })
    const result = await execute({ schema, document, variableValues: variables, rootValue: event, contextValue })
    const errors = result.errors?.map((error) => formatError(mask(error)))
    if (over.signal.aborted) return
    if (result.data == null)
      return end((errors?.[0] as { extensions: { code: string } } | undefined)?.extensions.code ?? '')
    side.seen.push(JSON.parse(JSON.stringify({ ...result, ...(errors ? { errors } : {}) })))
  }

  function end(code: string): void {
    side.ended = code
    over.abort()
  }

  const isMember = async () => (await domain.visibility.spaces(viewer, [spaceId])).has(spaceId)

  async function tellEntry({ cursor, at, event }: LogEntry): Promise<void> {
    if (event.type === 'MemberLeft' && event['entityId'] === viewer.id && !(await isMember())) return end('FORBIDDEN')
    await tell({ ...event, cursor, at: new Date(at), spaceId })
  }

  async function follow(): Promise<void> {
    if (!(await isMember())) return end('NOT_FOUND')
    const options = { after: after ?? undefined, signal: over.signal }
    for await (const delivery of platform.log.follow(`space:${spaceId}`, options)) {
      if (delivery.type === 'gap')
        await tell({ type: 'SpaceSnapshot', cursor: delivery.cursor, at: new Date(), spaceId })
      else for (const entry of delivery.entries) if (!over.signal.aborted) await tellEntry(entry)
    }
  }
  void follow().catch((error) => end(String(error)))
  return side
}
