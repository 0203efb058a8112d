import type { Prisma, Webhook } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "Webhook".

export async function insertWebhook(tx: Tx, webhook: Prisma.WebhookUncheckedCreateInput): Promise<Webhook> {
  return tx.webhook.create({ data: webhook })
}

/** Deletes webhooks. Returns the number of deleted webhooks. */
export async function deleteWebhooks(tx: Tx, where: Prisma.WebhookWhereInput): Promise<number> {
  return (await tx.webhook.deleteMany({ where })).count
}

/**
 * Stores a new encrypted secret. The previous secret stays valid until the given time. Returns undefined if there is
 * no such webhook.
 */
export async function rotateWebhookSecret(
  tx: Tx,
  ids: readonly string[],
  { sealed, until }: { sealed: string; until: Date },
): Promise<Webhook | undefined> {
  const [rotated] = await tx.$queryRaw<Webhook[]>`
    UPDATE "Webhook" SET "oldSecretSealed" = "secretSealed", "oldSecretUntil" = ${until}, "secretSealed" = ${sealed}
    WHERE id = ANY(${[...ids]}::text[]) RETURNING *`
  return rotated
}

/** Records when a webhook was last used. */
export async function saveWebhookUse(prisma: Pick<Tx, 'webhook'>, id: string, lastUsedAt: Date): Promise<void> {
  await prisma.webhook.updateMany({ where: { id }, data: { lastUsedAt } })
}
