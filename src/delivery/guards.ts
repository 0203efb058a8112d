// Ends the subscriptions of viewers who have lost access to the server, a space or a run.
import type { Viewer } from '../access/viewer.ts'
import { type EntitySignal, entityChannel, tokenChannel } from '../broker/topics.ts'
import type { Domain } from '../graphql/domain.ts'
import type { Run } from '../graphql/shapes.ts'
import { sleep } from '../lib/async.ts'
import { ForbiddenError, messageOf, NotFoundError, UnauthenticatedError } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { Lifeline } from './feed.ts'
import type { PeriodicRecheck } from './recheck.ts'
import { createSharedWatch } from './shared-watch.ts'

/**
 * A signal on the viewer's own channel. `reconnected`: the connection was restored, and signals may have been lost.
 * `missed`: a recheck found a change for which no signal arrived.
 */
export type EntityChange = EntitySignal | { type: 'reconnected' | 'missed' }

/**
 * A guard ends a subscription as soon as its viewer loses access, even if another process made the change. The
 * guard is active once its promise has resolved, and ends with the lifeline. It subscribes to signals before it
 * checks the database.
 */
export interface Guards {
  /** Ends the subscription with UnauthenticatedError once the viewer's token is revoked or expires. */
  viewer(viewer: Viewer, lifeline: Pick<Lifeline, 'fail' | 'onEnd'>): Promise<void>
  /**
   * Ends the subscription with ForbiddenError once the viewer is no longer a member of the space.
   * @throws NotFoundError if the viewer is not a member now
   */
  space(viewer: Viewer, spaceId: string, lifeline: Lifeline): Promise<void>
  /**
   * Whether the viewer may see the space now. Retries if the database fails. Returns false once the signal has
   * aborted.
   */
  seesSpace(viewer: Viewer, spaceId: string, signal: AbortSignal): Promise<boolean>
  /**
   * Ends the subscription with ForbiddenError once the viewer may no longer read the run.
   * @throws NotFoundError if the viewer may not read the run now
   */
  run(viewer: Viewer, runId: string, lifeline: Lifeline): Promise<Run>
  /** Listens to the changes of a human. All listeners for the same human share one subscription to the signals. */
  entityChanges(entityId: string, listener: (change: EntityChange) => void): Promise<() => void>
}

type GuardsPlatform = Pick<Platform, 'signals' | 'clock' | 'logger'>
type GuardsDomain = Pick<Domain, 'tokens' | 'visibility' | 'spaces' | 'runs'>

const RETRY_MS = 500
/** The longest delay that setTimeout supports. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export function createGuards(
  { signals, clock, logger }: GuardsPlatform,
  app: GuardsDomain,
  periodicRecheck: PeriodicRecheck,
): Guards {
  const { tokens, visibility } = app

  /** Retries the check until it succeeds, so that a database outage does not extend access. */
  async function recheck(check: () => Promise<void>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        return await check()
      } catch (error) {
        logger.warn({ error: messageOf(error) }, 'could not look up what a subscriber may watch')
        await sleep(RETRY_MS, signal)
      }
    }
  }

  const revocations = createSharedWatch<'revoked'>(
    async (tokenId, emit) => {
      const over = new AbortController()
      const token: Viewer = { scope: 'ADMIN', id: tokenId, tokenId, expiresAt: null }
      const check = async () => {
        if (!(await tokens.stands(token))) emit('revoked')
      }
      // A signal only triggers a check. The database decides whether the token is revoked, and a revocation is final.
      const leave = await signals.subscribe(tokenChannel(tokenId), (payload) => {
        if (isRevocation(payload)) void recheck(check, over.signal)
      })
      const leaveReconnect = signals.onReconnect(() => void recheck(check, over.signal))
      const leaveRechecks = periodicRecheck.token(tokenId, () => emit('revoked'))
      const stop = () => {
        over.abort()
        leave()
        leaveReconnect()
        leaveRechecks()
      }
      try {
        await check()
        return stop
      } catch (error) {
        stop()
        throw error
      }
    },
    { final: true },
  )

  const entities = createSharedWatch<EntityChange>(async (entityId, emit) => {
    const leave = await signals.subscribe(entityChannel(entityId), (payload) => emit(payload as EntitySignal))
    const leaveReconnect = signals.onReconnect(() => emit({ type: 'reconnected' }))
    const stop = () => {
      leave()
      leaveReconnect()
    }
    try {
      const leaveRechecks = await periodicRecheck.human(entityId, () => emit({ type: 'missed' }))
      return () => {
        stop()
        leaveRechecks()
      }
    } catch (error) {
      stop()
      throw error
    }
  })

  /** Calls `end` once the human of a session or JWT is deleted, or no longer has the same role as at sign-in. */
  async function watchHuman(viewer: Viewer, end: () => void): Promise<() => void> {
    const over = new AbortController()
    const check = async () => {
      if (!(await tokens.stands(viewer))) end()
    }
    const leave = await entities.join(viewer.id, ({ type }) => {
      if (type === 'gone' || type === 'role-changed' || mayHaveMissed(type)) void recheck(check, over.signal)
    })
    return () => {
      over.abort()
      leave()
    }
  }

  /** Checks the viewer's access now, and again whenever the viewer may have lost access. */
  async function keepChecking(
    viewer: Viewer,
    lifeline: Lifeline,
    sees: () => Promise<boolean>,
    concerns: (change: EntityChange) => boolean,
    why: () => Promise<Error> = async () => new ForbiddenError('You no longer have access to this.'),
  ): Promise<boolean> {
    const check = async () => {
      if (!(await sees())) lifeline.fail(await why())
    }
    if (viewer.scope !== 'HUMAN' || isAdmin(viewer)) {
      const checkAgain = () => void recheck(check, lifeline.signal)
      lifeline.onEnd(signals.onReconnect(checkAgain))
      lifeline.onEnd(periodicRecheck.onTick(checkAgain))
    } else {
      const onChange = (change: EntityChange) => {
        if (mayHaveMissed(change.type) || concerns(change)) void recheck(check, lifeline.signal)
      }
      lifeline.onEnd(await entities.join(viewer.id, onChange))
    }
    return sees()
  }

  return {
    async viewer(viewer, lifeline) {
      const { tokenId, expiresAt } = viewer
      const end = () =>
        lifeline.fail(new UnauthenticatedError('Your token is no longer valid. Sign in with another token.'))
      // A JWT cannot be revoked. Access ends when the human is deleted or gets a different role.
      if (tokenId === null && viewer.scope === 'HUMAN') lifeline.onEnd(await watchHuman(viewer, end))
      if (expiresAt !== null) lifeline.onEnd(callAt(expiresAt.getTime(), clock.now, end))
      if (tokenId !== null) lifeline.onEnd(await revocations.join(tokenId, end))
    },
    async space(viewer, spaceId, lifeline) {
      const exists = async () => (await app.spaces.getMany([spaceId]))[0] != null
      // Admins may read every space, so for admins the check is whether the space exists.
      const sees = async () =>
        (await visibility.spaces(viewer, [spaceId])).has(spaceId) && (!isAdmin(viewer) || (await exists()))
      const concerns = (change: EntityChange) => change.type === 'member-left' && change.spaceId === spaceId
      const why = async () =>
        (await exists())
          ? new ForbiddenError('You are no longer a member of this space.')
          : new NotFoundError(NO_SUCH_SPACE)
      if (!(await keepChecking(viewer, lifeline, sees, concerns, why))) throw new NotFoundError(NO_SUCH_SPACE)
    },
    async seesSpace(viewer, spaceId, signal) {
      let isSeen = false
      const look = async () => {
        isSeen = (await visibility.spaces(viewer, [spaceId])).has(spaceId)
      }
      await recheck(look, signal)
      return isSeen
    },
    async run(viewer, runId, lifeline) {
      const [run] = await app.runs.getMany([runId])
      const sees = async () => run != null && (await visibility.runs(viewer, [run])).has(runId)
      const visible = await keepChecking(viewer, lifeline, sees, ({ type }) => type === 'member-left')
      if (run == null || !visible) throw new NotFoundError('There is no such run.')
      return run
    },
    entityChanges: (entityId, listener) => entities.join(entityId, listener),
  }
}

const isRevocation = (payload: unknown): boolean =>
  typeof payload === 'object' && payload !== null && 'type' in payload && payload.type === 'revoked'

const mayHaveMissed = (type: EntityChange['type']): boolean => type === 'reconnected' || type === 'missed'

const NO_SUCH_SPACE = 'There is no such space, or you are not a member of it.'

/**
 * Calls `call` at the given time, even if the time is further away than setTimeout supports. Returns a function
 * that cancels the call.
 */
function callAt(time: number, now: () => number, call: () => void): () => void {
  let timer: NodeJS.Timeout
  const wait = () => {
    const left = time - now()
    timer = setTimeout(left > LONGEST_TIMER_MS ? wait : call, Math.min(Math.max(left, 0), LONGEST_TIMER_MS))
    timer.unref()
  }
  wait()
  return () => clearTimeout(timer)
}
