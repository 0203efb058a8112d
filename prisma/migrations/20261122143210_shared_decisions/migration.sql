-- CreateEnum
CREATE TYPE "ApprovalState" AS ENUM ('PENDING', 'APPROVED', 'DENIED', 'EXPIRED', 'CANCELED');

-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "notifySecretSealed" TEXT,
ADD COLUMN     "notifyUrl" TEXT;

-- AlterTable
ALTER TABLE "AgentTool" ADD COLUMN     "approval" JSONB,
ADD COLUMN     "resultSchema" JSONB;

-- AlterTable
ALTER TABLE "McpServer" ADD COLUMN     "approval" JSONB,
ADD COLUMN     "approvalTools" JSONB;

-- AlterTable
ALTER TABLE "ToolCall" ADD COLUMN     "answeredById" TEXT,
ADD COLUMN     "answeredByService" TEXT,
ADD COLUMN     "approval" JSONB,
ADD COLUMN     "approvalExpiresAt" TIMESTAMPTZ(3),
ADD COLUMN     "approvalState" "ApprovalState",
ADD COLUMN     "approverIds" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "carryAt" TIMESTAMPTZ(3),
ADD COLUMN     "carryAttempt" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "claimedById" TEXT,
ADD COLUMN     "escalateToIds" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "escalatedAt" TIMESTAMPTZ(3),
ADD COLUMN     "escalatesAt" TIMESTAMPTZ(3),
ADD COLUMN     "inputDigest" TEXT;

-- CreateTable
CREATE TABLE "Decision" (
    "toolCallId" TEXT NOT NULL,
    "humanId" TEXT NOT NULL,
    "inputDigest" TEXT NOT NULL,
    "approve" BOOLEAN NOT NULL,
    "reason" TEXT,
    "at" TIMESTAMPTZ(3) NOT NULL,
    "counted" BOOLEAN,

    CONSTRAINT "Decision_pkey" PRIMARY KEY ("toolCallId","humanId","inputDigest")
);

-- CreateTable
CREATE TABLE "Notification" (
    "id" TEXT NOT NULL,
    "position" BIGSERIAL NOT NULL,
    "agentId" TEXT NOT NULL,
    "toolCallId" TEXT NOT NULL,
    "body" TEXT NOT NULL,
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "nextAt" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "Notification_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "Notification_toolCallId_position_idx" ON "Notification"("toolCallId", "position");

-- CreateIndex
CREATE INDEX "Notification_nextAt_idx" ON "Notification"("nextAt");

-- AddForeignKey
ALTER TABLE "Decision" ADD CONSTRAINT "Decision_toolCallId_fkey" FOREIGN KEY ("toolCallId") REFERENCES "ToolCall"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- What waits for a decision, what is to be escalated, and what is approved and to be carried out: few rows of many.
CREATE INDEX "ToolCall_pending" ON "ToolCall"("id") WHERE "approvalState" = 'PENDING';
CREATE INDEX "ToolCall_escalates" ON "ToolCall"("escalatesAt") WHERE "escalatesAt" IS NOT NULL;
CREATE INDEX "ToolCall_carry" ON "ToolCall"("carryAt") WHERE "carryAt" IS NOT NULL;
