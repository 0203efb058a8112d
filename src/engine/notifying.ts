import { Webhook as StandardWebhook } from 'standardwebhooks'
import { openNotifySecret } from '../agents/notify-secret.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { Timed } from '../runs/due.ts'
import type { GuardedHttp } from '../tools/custom/guarded-http.ts'

/**
 * Sends notifications about waiting calls to agents' `notifyUrl`, by Standard Webhooks: in order
 * per call, each retried until it is accepted, for about a day. If a worker dies after sending one,
 * another sends it again with the same id.
 */
export interface Notifying {
  timed: Timed
  close(): Promise<void>
}

const AT_A_TIME = 20
const TIMEOUT_MS = 10_000
/** The lease of a notification: longer than one attempt takes. */
const IN_HAND = Prisma.sql`interval '30 seconds'`
/** Backoff of 1 s, 2 s, 4 s …, at most an hour. */
const PAUSE = (attempts: number) => Prisma.sql`least(3600, 2 ^ ${Math.min(attempts, 20) - 1}) * interval '1 second'`
const MOST_ATTEMPTS = 36

/** Condition on `n`: no earlier notification of the same call is still to be sent. */
const IS_NEXT = Prisma.sql`NOT EXISTS (
  SELECT 1 FROM "Notification" o WHERE o."toolCallId" = n."toolCallId" AND o.position < n.position)`

interface Notice {
  id: string
  agentId: string
  toolCallId: string
  body: string
  attempts: number
  notifyUrl: string | null
  notifySecretSealed: string | null
}

export function createNotifying(platform: Platform, { http }: { http: Pick<GuardedHttp, 'send'> }): Notifying {
  const { db, logger } = platform
  const closed = new AbortController()
  const underWay = new Map<string, Promise<void>>()

  async function take(id: string): Promise<Notice | null> {
    const [notice] = await db.prisma.$queryRaw<Notice[]>`
      WITH taken AS (
        UPDATE "Notification" n SET "nextAt" = clock_timestamp() + ${IN_HAND}, attempts = attempts + 1
        WHERE n.id = ${id} AND n."nextAt" <= clock_timestamp() AND ${IS_NEXT} RETURNING n.*
      )
      SELECT t.id, t."agentId", t."toolCallId", t.body, t.attempts, a."notifyUrl", a."notifySecretSealed"
      FROM taken t LEFT JOIN "Agent" a ON a.id = t."agentId"`
    return notice ?? null
  }

  /** Sends a notification. @returns whether it is done: accepted, given up, or no longer wanted */
  async function isTold(notice: Notice): Promise<boolean> {
    if (notice.notifyUrl === null || notice.notifySecretSealed === null) return true
    const { id, agentId, toolCallId, body, attempts, notifyUrl: url } = notice
    const secret = openNotifySecret(agentId, notice.notifySecretSealed, platform.secretBox)
    const headers = { 'content-type': 'application/json', ...signed({ id, body, secret, now: platform.clock.now() }) }
    const outcome = await http.send({
      method: 'POST',
      url,
      headers,
      body,
      // Do not follow redirects: a 200 from the target would not confirm delivery.
      stays: true,
      timeoutMs: TIMEOUT_MS,
      signal: closed.signal,
    })
    if (outcome.type === 'answer' || closed.signal.aborted) return outcome.type === 'answer'
    const isLast = attempts >= MOST_ATTEMPTS
    const said = isLast
      ? 'notifyUrl did not accept the notification at the last attempt; dropping it'
      : 'notifyUrl did not accept the notification; retrying'
    logger.warn({ agentId, toolCallId, attempts, reason: outcome.message }, said)
    return isLast
  }

  async function tell(id: string): Promise<void> {
    const notice = await take(id)
    if (notice === null) return
    const isMine = Prisma.sql`id = ${id} AND attempts = ${notice.attempts}`
    if (await isTold(notice)) await db.prisma.$executeRaw`DELETE FROM "Notification" WHERE ${isMine}`
    else {
      const pause = closed.signal.aborted ? Prisma.sql`interval '0'` : PAUSE(notice.attempts)
      await db.prisma.$executeRaw`UPDATE "Notification" SET "nextAt" = clock_timestamp() + ${pause} WHERE ${isMine}`
    }
  }

  function begin(id: string): void {
    if (closed.signal.aborted || underWay.has(id) || underWay.size >= AT_A_TIME) return
    const told = tell(id)
      .catch((error) => logger.error({ id, error: messageOf(error) }, 'could not send a notification'))
      .finally(() => underWay.delete(id))
    underWay.set(id, told)
  }

  return {
    timed: {
      what: 'a notification about a tool call',
      rows: Prisma.sql`SELECT n.id, n."nextAt" AS at FROM "Notification" n WHERE ${IS_NEXT}`,
      async handle(ids) {
        for (const id of ids) begin(id)
      },
    },
    async close() {
      closed.abort()
      await Promise.all(underWay.values())
    },
  }
}

function signed({ id, body, secret, now }: { id: string; body: string; secret: string; now: number }) {
  const at = new Date(Math.floor(now / 1000) * 1000)
  return {
    'webhook-id': id,
    'webhook-timestamp': String(at.getTime() / 1000),
    'webhook-signature': new StandardWebhook(secret).sign(id, at, body),
  }
}
