-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "firstCycle" INTEGER NOT NULL DEFAULT 0;

-- An agent thinks one cycle at a time, over all processes. Prisma's schema cannot say this: it is written by hand.
CREATE UNIQUE INDEX "Run_one_cycle_per_agent" ON "Run"("agentId")
  WHERE "triggerType" = 'INBOX' AND "status" IN ('QUEUED', 'RUNNING', 'WAITING_TOOL');
