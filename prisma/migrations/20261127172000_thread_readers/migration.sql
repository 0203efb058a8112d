-- Unread replies are counted in the threads of a human that began last. A deleted space deletes the marks of its threads.

DROP INDEX "ThreadReader_humanId_spaceId_idx";
CREATE INDEX "ThreadReader_humanId_spaceId_threadRootId_idx" ON "ThreadReader"("humanId", "spaceId", "threadRootId");
CREATE INDEX "ThreadReader_spaceId_idx" ON "ThreadReader"("spaceId");
