import { Webhook as StandardWebhook } from 'standardwebhooks'
import type { z } from 'zod'
import { openNotifySecret } from '../agents/notify-secret.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { enqueueSql } from '../jobs/enqueue-sql.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { SEND_NOTICE } from '../jobs/queues.ts'
import type { Platform } from '../platform/platform.ts'
import type { PublicUrl } from '../platform/public-url.ts'
import { takeFormerNoticeSql } from '../stores/call-notices.ts'
import type { GuardedHttp } from '../tools/custom/guarded-http.ts'

const TIMEOUT_MS = 10_000

type Notice = z.infer<typeof SEND_NOTICE.input>

/**
 * Sends notifications about waiting calls to agents' `notifyUrl`, in the format of Standard Webhooks. The notifications
 * of a call are sent in order, and each is retried for up to a day until the receiver accepts it. If a worker dies
 * after sending a notification, another worker sends it again with the same id.
 */
export function createNotifying(platform: Platform, { http }: { http: Pick<GuardedHttp, 'send'> }): BoundJob {
  const { db, secretBox, clock, publicUrl } = platform

  return bindJob(SEND_NOTICE, async (notice, { signal }) => {
    const agent = await db.prisma.agent.findUnique({
      where: { id: notice.agentId },
      select: { notifyUrl: true, notifySecretSealed: true },
    })
    // The agent was deleted, or no longer has a `notifyUrl`.
    if (!agent?.notifyUrl || agent.notifySecretSealed === null) return
    const secret = openNotifySecret(notice.agentId, agent.notifySecretSealed, secretBox)
    const sent = { ...notice, body: withLink(notice.body, publicUrl) }
    const outcome = await http.send({
      method: 'POST',
      url: agent.notifyUrl,
      headers: { 'content-type': 'application/json', ...signed(sent, { secret, now: clock.now() }) },
      body: sent.body,
      // Redirects are not followed, because a 200 from their target would not confirm the delivery.
      stays: true,
      timeoutMs: TIMEOUT_MS,
      signal,
    })
    if (outcome.type !== 'answer') throw new Error(`notifyUrl did not accept the notification: ${outcome.message}`)
  })
}

/** Adds the link to the page on which people see the call, if the public URL of this server is configured. */
function withLink(body: string, publicUrl: PublicUrl): string {
  const notice = JSON.parse(body)
  const spaceId = notice.data?.spaceId
  const url = publicUrl.forReader(spaceId == null ? '/waiting' : `/spaces/${spaceId}`)
  return url === null ? body : JSON.stringify({ ...notice, data: { ...notice.data, url } })
}

function signed({ id, body }: Notice, { secret, now }: { secret: string; now: number }) {
  const at = new Date(Math.floor(now / 1000) * 1000)
  return {
    'webhook-id': id,
    'webhook-timestamp': String(at.getTime() / 1000),
    'webhook-signature': new StandardWebhook(secret).sign(id, at, body),
  }
}

const MOST_AT_ONCE = 500

/**
 * Enqueues, in order, the notifications in the table that versions before 0.3 used. A worker of such a version may
 * still be sending a notification, under a lease of 30 s. That notification, and later ones of the same call, are
 * skipped until the next sweep.
 */
export async function adoptFormerNotices({ db }: Pick<Platform, 'db'>): Promise<void> {
  const rows = await db.prisma.$queryRaw<{ id: string; toolCallId: string; isClaimed: boolean }[]>`
    SELECT id, "toolCallId", attempts > 0 AND "nextAt" > now() AND "nextAt" <= now() + interval '30 seconds' AS "isClaimed"
    FROM "Notification" ORDER BY position LIMIT ${MOST_AT_ONCE}`
  const held = new Set<string>()
  for (const { id, toolCallId, isClaimed } of rows) {
    if (isClaimed) held.add(toolCallId)
    if (held.has(toolCallId)) continue
    const notice = Prisma.sql`
      SELECT "toolCallId" AS key, "toolCallId" AS subject,
        jsonb_build_object('id', id, 'agentId', "agentId", 'toolCallId', "toolCallId", 'body', body) AS data
      FROM former`
    await db.prisma.$executeRaw`
      WITH former AS (${takeFormerNoticeSql(id)}) ${enqueueSql(SEND_NOTICE, notice)}`
  }
}
