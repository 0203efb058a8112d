-- AlterTable
ALTER TABLE "AgentTool" ADD COLUMN     "timeoutGiven" BOOLEAN NOT NULL DEFAULT false;

-- Of tools there were, those with another time than the default had been given it.
UPDATE "AgentTool" SET "timeoutGiven" = true WHERE "execution" IN ('SPACE', 'EXTERNAL') AND "timeoutMs" <> 600000;

-- AlterTable
ALTER TABLE "Run" DROP COLUMN "jobId",
ADD COLUMN     "claimableAt" TIMESTAMPTZ(3),
ADD COLUMN     "deadlineAt" TIMESTAMPTZ(3),
ADD COLUMN     "leaseUntil" TIMESTAMPTZ(3),
ADD COLUMN     "setbacks" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "timeLeftMs" INTEGER;

-- Runs that are new may be claimed at once; those that are over, never.
ALTER TABLE "Run" ALTER COLUMN "claimableAt" SET DEFAULT clock_timestamp();

-- What had a job when it was upgraded is found by its row now.
UPDATE "Run" r SET "claimableAt" = "queuedAt"
WHERE "status" IN ('QUEUED', 'RUNNING')
  OR ("status" = 'WAITING_TOOL' AND NOT EXISTS (
    SELECT 1 FROM "ToolCall" c WHERE c."runId" = r."id" AND c."status" = 'WAITING'));

-- CreateIndex
CREATE INDEX "Run_claimableAt_idx" ON "Run"("claimableAt") WHERE "claimableAt" IS NOT NULL;

-- CreateIndex
CREATE INDEX "Run_deadlineAt_idx" ON "Run"("deadlineAt") WHERE "deadlineAt" IS NOT NULL;

-- CreateIndex
CREATE INDEX "InboxEvent_waiting_idx" ON "InboxEvent"("agentId", "id") WHERE "doneAt" IS NULL AND "runId" IS NULL;

-- How many runs of an agent execute, as of now: a volatile function sees what was committed after its statement began, before that
-- had the agent's row lock. Without it a claim would have to be two statements.
CREATE FUNCTION "executingRuns"(agent TEXT) RETURNS BIGINT LANGUAGE sql VOLATILE AS
$$ SELECT count(*) FROM "Run" WHERE "agentId" = agent AND "status" = 'RUNNING' $$;
