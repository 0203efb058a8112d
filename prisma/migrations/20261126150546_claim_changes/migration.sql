-- AlterTable
ALTER TABLE "ToolCall" ADD COLUMN     "claimChanges" INTEGER NOT NULL DEFAULT 0;

-- Calls that named no tool: what the model wrote for a name is in the step, and no member reads it any more.
UPDATE "ToolCall" SET "toolName" = 'unknown'
WHERE "status" = 'FAILED' AND "execution" IS NULL AND "error" LIKE 'There is no tool % for you at this step.';
