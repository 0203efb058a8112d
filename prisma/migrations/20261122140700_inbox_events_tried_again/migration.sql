-- AlterTable
ALTER TABLE "InboxEvent" ADD COLUMN     "outages" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "retryAt" TIMESTAMPTZ(3);

-- By hand: those that wait for it are few, and one look a second asks for the next.
CREATE INDEX "InboxEvent_retryAt_idx" ON "InboxEvent"("retryAt") WHERE "retryAt" IS NOT NULL;

CREATE INDEX "InboxEvent_retry_agentId_idx" ON "InboxEvent"("agentId") WHERE "retryAt" IS NOT NULL;
