-- AlterTable
ALTER TABLE "Plan" ADD COLUMN     "originId" TEXT;

-- AlterTable
ALTER TABLE "PlanFiring" ADD COLUMN     "originId" TEXT;

-- CreateIndex
CREATE INDEX "PlanFiring_rootId_idx" ON "PlanFiring"("rootId");

-- CreateIndex
CREATE INDEX "PlanFiring_originId_firedAt_idx" ON "PlanFiring"("originId", "firedAt");
