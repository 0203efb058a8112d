import type { Prisma, PushKeys, PushSubscription } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "PushSubscription" and "PushKeys".

/** Stores a subscription. If the human already has this subscription, stores its new keys. Returns its id. */
export async function savePushSubscription(tx: Tx, { id, ...given }: PushSubscription): Promise<string> {
  const { humanId, hash, p256dh, auth, tokenId } = given
  const saved = await tx.pushSubscription.upsert({
    where: { humanId_hash: { humanId, hash } },
    create: { id, ...given },
    update: { p256dh, auth, tokenId },
    select: { id: true },
  })
  return saved.id
}

/** Deletes subscriptions. Returns the number of deleted subscriptions. */
export async function deletePushSubscriptions(tx: Tx, where: Prisma.PushSubscriptionWhereInput): Promise<number> {
  return (await tx.pushSubscription.deleteMany({ where })).count
}

/**
 * Stores the key pair unless one is already stored. Returns the stored pair, so that processes that start at the same
 * time use the same pair.
 */
export async function keepPushKeys(tx: Tx, pair: Omit<PushKeys, 'id'>): Promise<PushKeys> {
  await tx.$executeRaw`
    INSERT INTO "PushKeys" (id, "publicKey", "privateSealed") VALUES (1, ${pair.publicKey}, ${pair.privateSealed})
    ON CONFLICT DO NOTHING`
  return tx.pushKeys.findUniqueOrThrow({ where: { id: 1 } })
}
