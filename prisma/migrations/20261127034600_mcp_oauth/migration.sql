-- AlterTable
ALTER TABLE "McpServer" ADD COLUMN     "oauth" TEXT NOT NULL DEFAULT 'NONE',
ADD COLUMN     "oauthSealed" TEXT;
