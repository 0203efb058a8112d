-- AlterTable
ALTER TABLE "McpServer" ADD COLUMN     "problems" JSONB NOT NULL DEFAULT '[]';

-- AlterTable
ALTER TABLE "ToolCall" ADD COLUMN     "files" JSONB;
