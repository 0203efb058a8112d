import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'
import type { SecretBox } from '../platform/secret-box.ts'

/** A column of encrypted text, and the SQL of what it belongs to, as whoever seals it says it. */
export const SEALED = [
  { table: 'Agent', column: 'notifySecretSealed', context: Prisma.sql`'notify:' || id` },
  { table: 'Webhook', column: 'secretSealed', context: Prisma.sql`id` },
  { table: 'Webhook', column: 'oldSecretSealed', context: Prisma.sql`id` },
  { table: 'AgentTool', column: 'headersSealed', context: Prisma.sql`'tool:' || "agentId" || ':' || name` },
  { table: 'McpServer', column: 'headersSealed', context: Prisma.sql`'mcp:' || "agentId" || ':' || name` },
]

/**
 * Encrypts anew, with the box's own key, whatever it can open by that or by the key before. What is changed by others meanwhile was
 * sealed by them. @returns how many. @throws SealBrokenError for what neither key opens
 */
export async function resealAll({ prisma }: Pick<Database, 'prisma'>, box: SecretBox): Promise<number> {
  let count = 0
  for (const { table, column: name, context } of SEALED) {
    const [from, column] = [Prisma.raw(`"${table}"`), Prisma.raw(`"${name}"`)]
    const rows = await prisma.$queryRaw<{ sealed: string; context: string }[]>`
      SELECT ${column} AS sealed, ${context} AS context FROM ${from} WHERE ${column} IS NOT NULL`
    for (const row of rows) {
      const sealed = box.seal(box.open(row.sealed, row.context), row.context)
      count += await prisma.$executeRaw`UPDATE ${from} SET ${column} = ${sealed} WHERE ${column} = ${row.sealed}`
    }
  }
  return count
}
