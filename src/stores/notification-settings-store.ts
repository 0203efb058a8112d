import type { NotificationSettings as Row } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "NotificationSettings".

/** The settings that a human may change. */
export type SettingsChange = Partial<Pick<Row, 'push' | 'mail' | 'notifyAfterMinutes'>>

/**
 * Locks the settings of a human. Creates them with the default values if there are none. The lock also serializes
 * changes to the human's push subscriptions and emails.
 */
export async function lockNotificationSettings(tx: Tx, humanId: string): Promise<Row> {
  const [row] = await tx.$queryRaw<Row[]>`
    INSERT INTO "NotificationSettings" ("humanId", "mailedAt") VALUES (${humanId}, '{}')
    ON CONFLICT ("humanId") DO UPDATE SET "humanId" = excluded."humanId" RETURNING *`
  if (row === undefined) throw new Error(`could not lock the notification settings of ${humanId}`)
  return row
}

export async function changeNotificationSettings(tx: Tx, humanId: string, change: SettingsChange): Promise<void> {
  await lockNotificationSettings(tx, humanId)
  await tx.notificationSettings.update({ where: { humanId }, data: change })
}

/** Records the times of the last notification emails. */
export async function setMailTimes(tx: Tx, humanId: string, mailedAt: readonly Date[]): Promise<void> {
  await tx.notificationSettings.update({ where: { humanId }, data: { mailedAt: [...mailedAt] } })
}

export async function deleteNotificationSettings(tx: Tx, humanId: string): Promise<void> {
  await tx.notificationSettings.deleteMany({ where: { humanId } })
}
