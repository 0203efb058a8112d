-- CreateEnum
CREATE TYPE "RunStopReason" AS ENUM ('FINISHED', 'SKIPPED', 'ALL_ANSWERED', 'HANDED_ON', 'MAX_STEPS', 'MAX_TOOL_CALLS', 'TOKEN_BUDGET', 'OVER_BUDGET', 'STOPPED', 'TIME_LIMIT', 'MODEL_FAILED', 'WORKER_LOST', 'GONE', 'INTERNAL');

-- AlterEnum
-- This migration adds more than one value to an enum.
-- With PostgreSQL versions 11 and earlier, this is not possible
-- in a single migration. This can be worked around by creating
-- multiple migrations, each migration adding only one value to
-- the enum.


ALTER TYPE "OutcomeKind" ADD VALUE 'ANSWERED';
ALTER TYPE "OutcomeKind" ADD VALUE 'PAUSED';
ALTER TYPE "OutcomeKind" ADD VALUE 'OVER_BUDGET';
ALTER TYPE "OutcomeKind" ADD VALUE 'FAILED';
ALTER TYPE "OutcomeKind" ADD VALUE 'DROPPED';

-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "maxToolCalls" INTEGER;

-- AlterTable
ALTER TABLE "Outcome" ADD COLUMN     "error" TEXT;

-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "retryOfId" TEXT,
ADD COLUMN     "stopReason" "RunStopReason",
ADD COLUMN     "stoppedById" TEXT;

-- CreateIndex
CREATE UNIQUE INDEX "Run_retryOfId_key" ON "Run"("retryOfId");
