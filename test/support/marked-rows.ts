import type { Database } from '../../src/platform/db.ts'

/** A row with a text, and the spaces from which its content may come. */
interface MarkedRow {
  id: string
  text: string
  marks: string[]
}

/** @returns a function that reads the rows created or modified since the last call; call it while nothing runs */
export function createMarkedRows({ prisma }: Database): () => Promise<MarkedRow[]> {
  let after = ''
  return async () => {
    const rows = await prisma.$queryRaw<MarkedRow[]>`
      SELECT * FROM (
        SELECT id, parts::text AS text, places || label || "spaceId" AS marks FROM "Message" WHERE id > ${`msg_${after}`}
        UNION ALL SELECT s.id, concat(s.instructions, s."messagesAdded", s.assistant), r.places || r.label
          FROM "Step" s JOIN "Run" r ON r.id = s."runId" WHERE s.id > ${`stp_${after}`}
        UNION ALL SELECT id, payload::text, places || label FROM "InboxEvent" WHERE id > ${`inb_${after}`}
        UNION ALL SELECT id, concat(messages, summary), places || label FROM "Cycle" WHERE id > ${`cyc_${after}`}
        UNION ALL SELECT id, concat(key, value), places || label FROM "Memory"
        UNION ALL SELECT id, description, places || label FROM "Goal"
        UNION ALL SELECT id, concat(name, instruction), places || label FROM "Plan"
        UNION ALL SELECT id, "replyStack"::text, label FROM "Chain"
      ) written ORDER BY substr(id, 5)`
    after = rows.at(-1)?.id.slice(4) ?? after
    return rows
  }
}
