import { Prisma } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import { oneLine } from '../lib/json.ts'
import type { Database } from '../platform/db.ts'
import { SealBrokenError, type SecretBox } from '../platform/secret-box.ts'

const ID = Prisma.sql`id`
const OF_AGENT = Prisma.sql`"agentId" || ':' || name`

const OF_PUSH = Prisma.sql`"viewerId" || ':' || "taskId" || ':' || id`

/** The encrypted columns, each with SQL for the row's key and for the context of the encryption. */
export const SEALED = [
  { table: 'Agent', column: 'notifySecretSealed', id: ID, context: Prisma.sql`'notify:' || id` },
  {
    table: 'Agent',
    column: 'remoteHeadersSealed',
    id: ID,
    context: Prisma.sql`'remote:' || id || ':' || model`,
  },
  { table: 'Webhook', column: 'secretSealed', id: ID, context: ID },
  { table: 'Webhook', column: 'oldSecretSealed', id: ID, context: ID },
  { table: 'JoinLink', column: 'codeSealed', id: ID, context: ID },
  { table: 'PushKeys', column: 'privateSealed', id: Prisma.sql`id::text`, context: Prisma.sql`'push:' || "publicKey"` },
  {
    table: 'AgentTool',
    column: 'headersSealed',
    id: OF_AGENT,
    context: Prisma.sql`'tool:' || "agentId" || ':' || name`,
  },
  {
    table: 'McpServer',
    column: 'headersSealed',
    id: OF_AGENT,
    context: Prisma.sql`'mcp:' || "agentId" || ':' || name`,
  },
  {
    table: 'McpServer',
    column: 'oauthSealed',
    id: OF_AGENT,
    context: Prisma.sql`'mcp-oauth:' || "agentId" || ':' || name`,
  },
  {
    table: 'McpPersonAuthorization',
    column: 'sealed',
    id: Prisma.sql`"agentId" || ':' || name || ':' || "humanId"`,
    context: Prisma.sql`'mcp-oauth:' || "agentId" || ':' || name || ':' || "humanId"`,
  },
  {
    table: 'TaskPush',
    column: 'sealed',
    id: OF_PUSH,
    context: Prisma.sql`'task-push:' || ${OF_PUSH}`,
  },
  {
    table: 'AgentDraft',
    column: 'headersSealed',
    id: Prisma.sql`"agentId"`,
    context: Prisma.sql`'draft:' || "agentId"`,
  },
  {
    table: 'ModelProvider',
    column: 'keySealed',
    id: Prisma.sql`name`,
    context: Prisma.sql`'provider:' || name || ':' || api || ':' || coalesce("baseUrl", '')`,
  },
]

/** A secret that could not be re-encrypted. */
export interface UnrotatedSecret {
  table: string
  column: string
  id: string
  /** The reason in one line, without any part of the secret. */
  reason: string
}

export interface Rotation {
  /** The number of secrets that are now encrypted with the current key. */
  rotated: number
  failed: UnrotatedSecret[]
}

const ROWS_AT_ONCE = 500

/**
 * Decrypts every encrypted value with the current or the previous key, and encrypts it with the current key. Each row
 * is written in its own statement. An interrupted rotation can be repeated, because each row can always be decrypted
 * with one of the two keys. Rows that cannot be decrypted or written are reported and stay unchanged. A concurrent
 * write by another process is not overwritten.
 */
export async function resealAll({ prisma }: Pick<Database, 'prisma'>, box: SecretBox): Promise<Rotation> {
  const rotation: Rotation = { rotated: 0, failed: [] }
  for (const { table, column: name, id, context } of SEALED) {
    const [from, column] = [Prisma.raw(`"${table}"`), Prisma.raw(`"${name}"`)]
    for (let after = ''; ; ) {
      const rows = await prisma.$queryRaw<{ id: string; sealed: string; context: string }[]>`
        SELECT ${id} AS id, ${column} AS sealed, ${context} AS context FROM ${from}
        WHERE ${column} IS NOT NULL AND ${id} > ${after} ORDER BY 1 LIMIT ${ROWS_AT_ONCE}`
      for (const row of rows) {
        try {
          const sealed = box.seal(box.open(row.sealed, row.context), row.context)
          rotation.rotated += await prisma.$executeRaw`
            UPDATE ${from} SET ${column} = ${sealed} WHERE ${id} = ${row.id} AND ${column} = ${row.sealed}`
        } catch (error) {
          const reason = error instanceof SealBrokenError ? BROKEN : oneLine(messageOf(error)).slice(0, 200)
          rotation.failed.push({ table, column: name, id: row.id, reason })
        }
      }
      if (rows.length < ROWS_AT_ONCE) break
      after = rows.at(-1)?.id ?? ''
    }
  }
  return rotation
}

const BROKEN = 'neither PARLEY_SECRET_KEY nor PARLEY_SECRET_KEY_BEFORE decrypts the secret'
