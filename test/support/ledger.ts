import type { Database } from '../../src/platform/db.ts'

/**
 * Writes the ledger of the runs of 100 agents over 100 days from 2025-01-01: 5 runs a day in each space. With 20 spaces, this
 * makes a million.
 */
export async function fillLedger({ prisma }: Database, spaces = 20): Promise<void> {
  await prisma.$executeRaw`INSERT INTO "Entity" (id, kind, name)
    SELECT 'agt_' || md5('a' || a), 'AGENT', 'Agent ' || a FROM generate_series(1, 100) a`
  await prisma.$executeRaw`INSERT INTO "Agent" (id, instructions, model, mind, toolset, "maxSteps", "maxConcurrentRuns", phases)
    SELECT id, '', 'demo', 'STATELESS', 'ACTIVE_SPACE', 1, 1, '[]' FROM "Entity" WHERE kind = 'AGENT'`
  await prisma.$executeRaw`
    INSERT INTO "DailyUsage" (day, "agentId", "spaceId", model, runs, "inputTokens", "outputTokens", "costNanos")
    SELECT date '2025-01-01' + d, 'agt_' || md5('a' || a), 'spc_' || md5('s' || s), 'openai:gpt-5-mini', 5, 9000, 800, 1000
    FROM generate_series(0, 99) d, generate_series(1, 100) a, generate_series(1, ${spaces}::int) s`
  await prisma.$executeRaw`ANALYZE "DailyUsage"`
}
