import type { Database } from '../../src/platform/db.ts'

const AT_ONCE = 50_000

interface ManyMessages {
  spaceId: string
  /** The texts, used in turn. */
  senderIds: string[]
  texts: string[]
  /** The last existing `seq`, and the last `seq` to write. */
  from: number
  to: number
}

/** Writes messages of a space into its database, one minute apart and without runs. */
export async function writeMessages({ prisma }: Database, many: ManyMessages): Promise<void> {
  const { spaceId, senderIds, texts, from, to } = many
  for (let at = from; at < to; at += AT_ONCE) {
    await prisma.$executeRaw`
      INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt", "createdAt")
      SELECT 'msg_' || lpad(to_hex(n), 32, '0'), ${spaceId}, n, (${senderIds}::text[])[1 + n % ${senderIds.length}::int], 'COMPLETE',
        jsonb_build_array(jsonb_build_object('type', 'text', 'text', (${texts}::text[])[1 + n % ${texts.length}::int])), '', 0,
        now(), now() - (${to}::int - n) * interval '1 minute'
      FROM generate_series(${at + 1}::int, ${Math.min(at + AT_ONCE, to)}::int) n`
  }
  await prisma.$executeRaw`UPDATE "Space" SET "lastSeq" = ${to} WHERE id = ${spaceId}`
  await prisma.$executeRaw`VACUUM ANALYZE "Message"`
}

/** Returns the id of the message with this number, as `writeMessages` creates it. */
export const idOfWritten = (seq: number) => `msg_${seq.toString(16).padStart(32, '0')}`
