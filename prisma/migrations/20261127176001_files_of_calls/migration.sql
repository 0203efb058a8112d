-- AlterTable
ALTER TABLE "File" ADD COLUMN "callId" TEXT COLLATE "C";

-- CreateIndex
CREATE INDEX "File_callId_idx" ON "File"("callId");

-- AddForeignKey
ALTER TABLE "File" ADD CONSTRAINT "File_callId_fkey" FOREIGN KEY ("callId") REFERENCES "ToolCall"("id") ON DELETE CASCADE ON UPDATE CASCADE;
