-- AlterTable
ALTER TABLE "AgentTool" ADD COLUMN     "method" TEXT;
