import { createHash } from 'node:crypto'
import type { z } from 'zod'
import type { PushKeyPair } from '../access/push-keys.ts'
import type { Tokens } from '../access/tokens.ts'
import { openAmong } from '../flows/open-notices.ts'
import type { PushSubscription } from '../generated/prisma/client.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { SEND_PUSH } from '../jobs/queues.ts'
import { messageOf } from '../lib/errors.ts'
import { counter } from '../lib/metrics.ts'
import type { Platform } from '../platform/platform.ts'
import { lineOf, type NoticeIds, pathOfNotice, topicOf } from '../rules/notices.ts'
import { type PushResult, pushResultOf, retrySecondsOf } from '../rules/push-result.ts'
import { readNotificationSettings } from '../stores/notice-readers.ts'
import { deletePushSubscriptions } from '../stores/push-store.ts'
import type { GuardedHttp } from '../tools/custom/guarded-http.ts'

interface SendingPushParts {
  /** An HTTP client that connects only to public addresses, even if tools may connect to private ones. */
  http: Pick<GuardedHttp, 'send'>
  /** This server's keys for push messages; null if it cannot send them. */
  pushKeys: PushKeyPair | null
  tokens: Pick<Tokens, 'endedAmong'>
}

type Push = z.infer<typeof SEND_PUSH.input>

const TIMEOUT_MS = 15_000
/** How long a push service keeps the message for a browser that is not connected. */
const KEPT_SECONDS = 86_400
/** The contact address for push services if there is no public https URL. */
const NO_CONTACT = 'mailto:operator@parley.invalid'

/**
 * Sends a notice to one browser with Web Push (RFC 8030, 8291, 8292), if the notice is still open and its human may
 * still see it. The message contains only ids and a generic line of text. The job is completed before the message is
 * sent, so that a crash does not cause a second message. If the push service refuses the message for now, a new job
 * retries later. Removes a subscription that no longer exists at the push service, or whose session has ended.
 */
export function createSendingPush(platform: Platform, { http, pushKeys, tokens }: SendingPushParts): BoundJob {
  const { db, clock, jobs, logger, publicUrl, metrics } = platform
  const sent = counter(metrics, 'parley_push_messages_total', 'Push messages, by result.', ['result'])
  const subject = publicUrl.origin?.startsWith('https://') ? publicUrl.to('/') : NO_CONTACT

  /** Returns the subscription if the notice should still be sent to it. */
  async function subscriptionFor(push: Push): Promise<PushSubscription | null> {
    const { subscriptionId: id, humanId } = push
    const subscription = await db.prisma.pushSubscription.findUnique({ where: { id } })
    if (subscription === null || subscription.humanId !== humanId) return null
    const { tokenId } = subscription
    if (tokenId !== null && (await tokens.endedAmong([tokenId])).length > 0) {
      await deletePushSubscriptions(db.prisma, { id })
      return null
    }
    const wants = (await readNotificationSettings(db.prisma, humanId)).push
    return wants && (await openAmong(db.prisma, humanId, [push])).length > 0 ? subscription : null
  }

  async function send(
    { endpoint, p256dh, auth }: PushSubscription,
    push: Push,
    keys: PushKeyPair,
    signal: AbortSignal,
  ): Promise<PushResult> {
    const { default: webPush } = await import('web-push')
    const encoding = 'aes128gcm' as const
    const content = JSON.stringify(contentOf(push))
    let encrypted: Buffer
    try {
      encrypted = webPush.encrypt(p256dh, auth, content, encoding).cipherText
    } catch {
      // The subscription's key is not a point on the curve, so it is invalid.
      return 'gone'
    }
    const { origin } = new URL(endpoint)
    const vapid = webPush.getVapidHeaders(origin, subject, keys.publicKey, keys.privateKey, encoding)
    const outcome = await http.send({
      method: 'POST',
      url: endpoint,
      headers: {
        ...vapid,
        'content-type': 'application/octet-stream',
        'content-encoding': encoding,
        ttl: String(KEPT_SECONDS),
        urgency: push.kind === 'MESSAGE' ? 'normal' : 'high',
        topic: createHash('sha256').update(topicOf(push)).digest('base64url').slice(0, 32),
      },
      body: encrypted,
      stays: true,
      timeoutMs: TIMEOUT_MS,
      signal,
    })
    return pushResultOf(outcome)
  }

  return bindJob(SEND_PUSH, async (push, job) => {
    const subscription = pushKeys === null ? null : await subscriptionFor(push)
    await db.transaction((tx) => job.complete(tx))
    if (subscription === null || pushKeys === null) return
    const about = { humanId: push.humanId, subscriptionId: push.subscriptionId, noticeId: push.noticeId }
    try {
      const result = await send(subscription, push, pushKeys, job.signal)
      sent.inc({ result })
      if (result === 'gone') await deletePushSubscriptions(db.prisma, { id: subscription.id })
      if (result !== 'later') return
      const afterSeconds = retrySecondsOf(push.refusals)
      if (afterSeconds === null)
        return logger.warn(about, 'a push service has refused a message too many times; dropping the message')
      const again = { ...push, refusals: push.refusals + 1 }
      const at = new Date(clock.now() + afterSeconds * 1000)
      const key = `${push.noticeId}:${push.subscriptionId}`
      await db.transaction((tx) => jobs.enqueue(tx, SEND_PUSH, [{ key, input: again, at }]))
    } catch (error) {
      logger.warn({ ...about, error: messageOf(error) }, 'could not send a push message')
    }
  })
}

/** Returns the content of the message for the console's service worker. */
function contentOf({ kind, spaceId, messageId, toolCallId, runId }: Push) {
  const ids: NoticeIds = { kind, spaceId, messageId, toolCallId, runId }
  return { ...ids, text: lineOf(kind), path: pathOfNotice(ids), topic: topicOf(ids) }
}
