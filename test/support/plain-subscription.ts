import { type ExecutionResult, execute, parse } from 'graphql'
import type { Viewer } from '../../src/access/viewer.ts'
import type { Application } from '../../src/app.ts'
import type { Publication } from '../../src/broker/log.ts'
import { createContext } from '../../src/graphql/context.ts'
import { createMasking, formatError } from '../../src/graphql/masking.ts'
import { schema } from '../../src/graphql/schema.ts'
import type { Streams } from '../../src/graphql/streams.ts'
import { isOverload } from '../../src/platform/database-errors.ts'

/** The events of a space that one viewer receives, and how the subscription ended: see `reexecute`. */
export interface PlainSubscription {
  seen: ExecutionResult[]
  ended: string | null
  stop(): void
}

/**
 * `spaceMessages` according to its definition: follows the log for one viewer, and executes the operation on each event for
 * that viewer alone. Shares nothing with other subscriptions, and no code with the server's delivery.
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
  const mask = createMasking(platform, isOverload)
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

  async function tellEntry({ cursor, at, event }: Publication): Promise<void> {
    if (event.type === 'MemberLeft' && event['entityId'] === viewer.id && !(await isMember())) return end('FORBIDDEN')
    await tell({ ...event, cursor, at: new Date(at), spaceId })
  }

  async function follow(): Promise<void> {
    if (!(await isMember())) return end('NOT_FOUND')
    const options = { after: after ?? undefined, signal: over.signal }
    for await (const delivery of platform.log.follow(`space:${spaceId}`, options)) {
      if (delivery.type === 'gap')
        await tell({ type: 'SpaceSnapshot', cursor: delivery.cursor, at: new Date(), spaceId })
      else for (const entry of delivery.publications) if (!over.signal.aborted) await tellEntry(entry)
    }
  }
  void follow().catch((error) => end(String(error)))
  return side
}
