import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { CALLS_CHANNEL, type CallsSignal } from '../realtime/topics.ts'
import type { CallSettling } from './call-settling.ts'
import { carried, keptInHand, putBack, takenInHand } from './calls-in-hand.ts'
import type { Timed } from './due.ts'
import type { Settlement } from './tool-calls.ts'

export interface CarryingHooks {
  /** Executes a call with its current input. Never throws. The result is discarded if the signal has aborted. */
  carryOut(call: ToolCall, signal: AbortSignal): Promise<Settlement>
}

/**
 * Executes approved calls, on any worker, while their run waits or their agent's cycle has ended.
 * If a worker dies its lease expires, and another one executes the call again with the same call
 * id, which the tool receives as idempotency key.
 */
export interface Carrying {
  timed: Timed
  /** Releases the leased calls; other workers execute them again. */
  close(): Promise<void>
}

const RENEWED_EVERY_MS = 1000
const AGAIN_MS = 500
const AT_A_TIME = 20
/** Give up after this many crashed attempts. */
const MOST_ATTEMPTS = 5
const DIED_TOO_OFTEN = `The worker died ${MOST_ATTEMPTS} times while it carried this call out; whether it took effect is unknown.`

interface InHand {
  attempt: number
  lost: AbortController
  done: Promise<void>
}

export async function createCarrying(
  platform: Platform,
  { settling, carryOut }: CarryingHooks & { settling: CallSettling },
): Promise<Carrying> {
  const { db, signals, logger } = platform
  const inHand = new Map<string, InHand>()
  const closed = new AbortController()

  async function take(id: string): Promise<void> {
    if (closed.signal.aborted || inHand.has(id) || inHand.size >= AT_A_TIME) return
    const call = await takenInHand(db.prisma, id)
    if (call === null) return
    const lost = new AbortController()
    const done = perform(call, lost.signal)
      .catch((error) =>
        logger.error({ toolCallId: id, error: messageOf(error) }, 'could not execute an approved tool call'),
      )
      .finally(() => inHand.delete(id))
    inHand.set(id, { attempt: call.carryAttempt, lost, done })
  }

  async function perform(call: ToolCall, signal: AbortSignal): Promise<void> {
    const held = { id: call.id, attempt: call.carryAttempt }
    const settlement = call.carryAttempt > MOST_ATTEMPTS ? givenUp() : await carryOut(call, signal)
    // Retry while the lease lasts: a call that was executed must not run again because the database was away.
    while (!signal.aborted && !(await isSettled(held, settlement))) await sleep(AGAIN_MS, signal)
  }

  async function isSettled(held: { id: string; attempt: number }, settlement: Settlement): Promise<boolean> {
    try {
      await settling.settle(held.id, { audience: null }, (tx) => carried(tx, held, settlement))
      return true
    } catch (error) {
      if (!isOutage(error)) throw error
      return false
    }
  }

  /** Renews the leases once a second, and aborts calls whose lease was lost. */
  async function renew(): Promise<void> {
    while (!closed.signal.aborted) {
      await sleep(RENEWED_EVERY_MS, closed.signal)
      const held = [...inHand].map(([id, { attempt }]) => ({ id, attempt }))
      if (held.length === 0 || closed.signal.aborted) continue
      const kept = await keptInHand(db.prisma, held).catch(() => null)
      if (kept === null) continue
      for (const { id } of held) if (!kept.includes(id)) inHand.get(id)?.lost.abort()
    }
  }

  const renewing = renew()
  const leave = await signals.subscribe(CALLS_CHANNEL, (payload) => {
    take((payload as CallsSignal).toolCallId).catch(() => {})
  })
  return {
    timed: {
      what: 'an approved call',
      rows: Prisma.sql`SELECT id, "carryAt" AS at FROM "ToolCall" WHERE "carryAt" IS NOT NULL`,
      async handle(ids) {
        for (const id of ids) await take(id)
      },
    },
    async close() {
      leave()
      closed.abort()
      await renewing
      const held = [...inHand].map(([id, { attempt }]) => ({ id, attempt }))
      for (const { lost } of inHand.values()) lost.abort()
      await Promise.all([...inHand.values()].map(({ done }) => done))
      for (const one of held) await putBack(db.prisma, one).catch(() => {})
    },
  }
}

function givenUp(): Settlement {
  return {
    status: 'FAILED',
    output: { error: { code: 'WORKER_LOST', message: DIED_TOO_OFTEN } },
    error: DIED_TOO_OFTEN,
  }
}
