-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "restsUntil" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "InboxEvent" ADD COLUMN     "suspect" BOOLEAN NOT NULL DEFAULT false;
