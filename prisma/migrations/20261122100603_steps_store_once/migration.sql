-- AlterTable
ALTER TABLE "Step" ADD COLUMN     "followsResponse" BOOLEAN NOT NULL DEFAULT false;
