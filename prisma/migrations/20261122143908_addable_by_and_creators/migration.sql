-- CreateEnum
CREATE TYPE "AddableBy" AS ENUM ('EVERYONE', 'SHARES_SPACE', 'ADMINS');

-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "addableBy" "AddableBy" NOT NULL DEFAULT 'EVERYONE';

-- AlterTable
ALTER TABLE "Space" ADD COLUMN     "creatorId" TEXT;

-- CreateIndex
CREATE INDEX "Space_creatorId_createdAt_idx" ON "Space"("creatorId", "createdAt");
