-- CreateEnum
CREATE TYPE "PlanFiringResult" AS ENUM ('RUN', 'INBOX', 'STILL_WAITING', 'PAUSED', 'OVER_BUDGET', 'LIMIT');

-- AlterTable
ALTER TABLE "AccessToken" ADD COLUMN     "lastUsedAt" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "paused" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "Entity" ADD COLUMN     "formerly" JSONB,
ADD COLUMN     "goneAt" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "Plan" ADD COLUMN     "timeZone" TEXT NOT NULL DEFAULT 'UTC';

-- AlterTable
ALTER TABLE "PlanFiring" ADD COLUMN     "id" TEXT,
ADD COLUMN     "result" "PlanFiringResult";

-- Firings of before: ids by their time, like those that are made now, and what came of them.
UPDATE "PlanFiring" f SET
  "id" = 'plf_' || lpad(to_hex((extract(epoch FROM f."firedAt") * 1000)::bigint), 12, '0') || substr(md5(f."planId" || f."slot"), 1, 20),
  "result" = (CASE a."mind" WHEN 'PERSISTENT' THEN 'INBOX' ELSE 'RUN' END)::"PlanFiringResult"
FROM "Plan" p JOIN "Agent" a ON a."id" = p."agentId" WHERE p."id" = f."planId";
DELETE FROM "PlanFiring" WHERE "id" IS NULL;

ALTER TABLE "PlanFiring" ALTER COLUMN "id" SET NOT NULL, ALTER COLUMN "result" SET NOT NULL;

-- AlterTable
ALTER TABLE "Space" ADD COLUMN     "deletedAt" TIMESTAMPTZ(3),
ADD COLUMN     "firstSeq" INTEGER NOT NULL DEFAULT 1;

-- AlterTable
ALTER TABLE "Webhook" ADD COLUMN     "lastUsedAt" TIMESTAMPTZ(3),
ADD COLUMN     "oldSecretSealed" TEXT,
ADD COLUMN     "oldSecretUntil" TIMESTAMPTZ(3),
ADD COLUMN     "urgent" BOOLEAN NOT NULL DEFAULT false;

-- CreateTable
CREATE TABLE "Invitation" (
    "hash" TEXT NOT NULL,
    "humanId" TEXT NOT NULL,
    "expiresAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "Invitation_pkey" PRIMARY KEY ("hash")
);

-- CreateIndex
CREATE INDEX "AccessToken_humanId_idx" ON "AccessToken"("humanId");

-- CreateIndex
CREATE UNIQUE INDEX "PlanFiring_id_key" ON "PlanFiring"("id");

-- CreateIndex
CREATE INDEX "Webhook_agentId_idx" ON "Webhook"("agentId");

-- CreateIndex
CREATE INDEX "PlanFiring_planId_id_idx" ON "PlanFiring"("planId", "id");
