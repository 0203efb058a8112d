-- AlterTable
ALTER TABLE "ToolCall" ADD COLUMN     "claimChanges" INTEGER NOT NULL DEFAULT 0;
