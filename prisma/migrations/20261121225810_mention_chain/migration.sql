-- AlterTable
ALTER TABLE "Chain" ADD COLUMN     "holderId" TEXT,
ADD COLUMN     "holderRunId" TEXT;

-- AlterTable
ALTER TABLE "InboxEvent" ADD COLUMN     "wokenBy" JSONB;

-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "wokenBy" JSONB;

-- AlterTable
ALTER TABLE "Space" ADD COLUMN     "lastPickedJoinedAt" TIMESTAMPTZ(3);
