import type { ExecutionResult } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'
import { createDeferred } from '../../lib/async.ts'
import { decodeCursor, type Position } from '../../realtime/cursor.ts'
import type { Streams } from '../../schema/streams.ts'
import { createLiveIteration } from '../streams/live-iteration.ts'
import type { SpaceSource } from '../streams/space-source.ts'
import { standing } from '../streams/standing.ts'
import { catchUp } from './catch-up.ts'
import type { Outlet } from './outlet.ts'
import { createSpaceGroup, type SpaceGroup } from './space-group.ts'

export type Result = ExecutionResult | AsyncIterable<ExecutionResult>

/** A subscription to one space, by an operation that others may have in common with it. */
export interface SharedSubscription {
  /** See OperationShape. */
  key: string
  viewer: Viewer
  outlet: Outlet
  /** The client's id of the operation. */
  id: string
  /** Runs the operation for this subscriber; the events come from what is given. */
  runOwn(spaceMessages: Streams['spaceMessages']): Promise<Result> | Result
  /** Runs the same operation on behalf of all who have it in common: nothing in it is this subscriber's. */
  runCommon(spaceMessages: Streams['spaceMessages']): Promise<Result> | Result
}

export interface Sharing {
  /**
   * What refuses the operation; or an iteration that gives nothing, since the answers go straight to the outlet, and that
   * lasts as long as the subscription.
   */
  subscribe(subscription: SharedSubscription): Promise<Result>
  /** How many groups there are now. */
  groups(): number
}

export interface SharingParts {
  source: SpaceSource
  /** An answer as it goes over the wire. */
  wireOf(result: ExecutionResult): object
}

/**
 * Lets subscribers who get the same answers share them. Each one is admitted, and ended, by itself; it gets its snapshot or
 * what it missed by an execution of its own, and joins its group at the moment when it has caught up.
 */
export function createSharing({ source, wireOf }: SharingParts): Sharing {
  const groups = new Map<string, SpaceGroup>()
  const payloadOf = (result: ExecutionResult) => JSON.stringify(wireOf(result))

  function groupOf({ key, runCommon }: SharedSubscription, spaceId: string): SpaceGroup {
    const known = groups.get(key)
    if (known) return known
    const group = createSpaceGroup({
      source,
      spaceId,
      payloadOf,
      async execute(events) {
        const result = await runCommon(async () => events)
        if (Symbol.asyncIterator in result) return result
        throw result.errors?.[0] ?? new Error('a shared operation gave nothing')
      },
      onEmpty: () => groups.get(key) === group && groups.delete(key),
    })
    groups.set(key, group)
    return group
  }

  async function subscribe(subscription: SharedSubscription): Promise<Result> {
    const { viewer, outlet, id } = subscription
    const head = Buffer.from(`{"id":${JSON.stringify(id)},"type":"next","payload":`)
    const live = createLiveIteration<never>()
    const over = createDeferred()
    live.onEnd(() => over.resolve())

    function joinAt(group: SpaceGroup, after: Position): void {
      if (live.signal.aborted) return
      const end = (error: unknown) => (error === null ? over.resolve() : live.fail(error as Error))
      live.onEnd(group.join({ viewer, outlet, head, after, end }))
    }

    async function* carry(signal: AbortSignal): AsyncGenerator<never> {
      for await (const result of own as AsyncIterable<ExecutionResult>) {
        if (signal.aborted) return
        outlet.sendPieces(head, Buffer.from(`${payloadOf(result)}}`))
        await outlet.drained()
      }
      yield* []
      if (joined) await over.promise
    }

    let joined = false
    const iteration = live.from(carry)
    const own = await standing(iteration, async () =>
      subscription.runOwn(async (_, { spaceId, after }) => {
        if (after !== null) decodeCursor(after)
        await standing(iteration, () => source.admit(viewer, spaceId, live))
        const group = groupOf(subscription, spaceId)
        live.onEnd(group.hold())
        const join = (at: Position) => {
          joined = true
          joinAt(group, at)
        }
        return catchUp({ source, group, viewer, spaceId, after, signal: live.signal, join })
      }),
    )
    if (Symbol.asyncIterator in own) return iteration
    await iteration.return?.()
    return own
  }

  return { subscribe, groups: () => groups.size }
}
