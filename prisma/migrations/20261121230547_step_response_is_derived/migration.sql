-- AlterTable
ALTER TABLE "Step" DROP COLUMN "response",
ALTER COLUMN "assistant" SET NOT NULL;
