import type { ExecutionResult } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'
import { createDeferred } from '../../lib/async.ts'
import { decodeCursor, type Position } from '../../realtime/cursor.ts'
import type { SpaceEvent, Streams } from '../../schema/streams.ts'
import { createLiveIteration, type Lifeline } from '../streams/live-iteration.ts'
import type { SpaceSource } from '../streams/space-source.ts'
import { standing } from '../streams/standing.ts'
import type { Subscriber } from './audience.ts'
import { binaryOf } from './frame.ts'
import type { Outlet } from './outlet.ts'
import type { Rounds } from './rounds.ts'
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
  runOwn(sources: Pick<Streams, 'spaceMessages'>): Promise<Result>
  /** Runs the same operation for any viewer of the same scope: nothing in it is this subscriber's. */
  runFor(viewer: Viewer, sources: Pick<Streams, 'spaceMessages'>): Promise<Result>
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
  rounds: Rounds
  /** An answer as it goes over the wire. */
  wireOf(result: ExecutionResult): object
}

/** Lets subscribers of one space by one operation share its execution. Each one is admitted, and ended, by itself. */
export function createSharing({ source, rounds, wireOf }: SharingParts): Sharing {
  const groups = new Map<string, SpaceGroup>()

  function groupOf({ key, viewer, runFor }: SharedSubscription, spaceId: string): SpaceGroup {
    const known = groups.get(key)
    if (known) return known
    const group = createSpaceGroup({
      source,
      rounds,
      spaceId,
      anyViewer: viewer,
      async run(of, events) {
        const result = await runFor(of, { spaceMessages: async () => events })
        if (Symbol.asyncIterator in result) return result
        throw result.errors?.[0] ?? new Error('a shared operation gave nothing')
      },
      textOf: (result) => binaryOf(`${JSON.stringify(wireOf(result))}}`),
      onEmpty: () => groups.get(key) === group && groups.delete(key),
    })
    groups.set(key, group)
    return group
  }

  async function subscribe(subscription: SharedSubscription): Promise<Result> {
    const live = createLiveIteration<never>()
    const over = createDeferred()
    live.onEnd(() => over.resolve())
    const iteration = live.from(async function* () {
      yield* []
      await over.promise
    })
    // Nothing here closes over the subscription: it would be kept with all that is needed to begin.
    const admitted = await standing(iteration, admit.bind(null, subscription, live))
    if ('refusal' in admitted) {
      await iteration.return?.()
      return admitted.refusal
    }
    const subscriber = subscriberOf(subscription, (error) =>
      error === null ? over.resolve() : live.fail(error as Error),
    )
    live.onEnd(groupOf(subscription, admitted.spaceId).enter(subscriber, admitted.after))
    return iteration
  }

  /** Runs the operation until it asks for events, and so learns which; its answers come from the group. */
  async function admit({ viewer, runOwn }: SharedSubscription, lifeline: Lifeline): Promise<Admission> {
    let admission: Admission | null = null
    const result = await runOwn({
      async spaceMessages(_, { spaceId, after }) {
        const position = after === null ? null : decodeCursor(after)
        await source.admit(viewer, spaceId, lifeline)
        admission = { spaceId, after: position }
        return noEvents()
      },
    })
    if (!(Symbol.asyncIterator in result) || admission === null) return { refusal: result }
    await result[Symbol.asyncIterator]().return?.()
    return admission
  }

  return { subscribe, groups: () => groups.size }
}

/** What is subscribed to, or why it is not. */
type Admission = { spaceId: string; after: Position | null } | { refusal: Result }

function subscriberOf({ viewer, outlet, id }: SharedSubscription, end: Subscriber['end']): Subscriber {
  return { viewer, outlet, head: binaryOf(`{"id":${JSON.stringify(id)},"type":"next","payload":`), end }
}

async function* noEvents(): AsyncGenerator<SpaceEvent> {
  yield* []
}
