-- AlterTable
ALTER TABLE "McpServer" ADD COLUMN     "listing" JSONB;
