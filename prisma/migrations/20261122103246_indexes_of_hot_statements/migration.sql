-- DropIndex
DROP INDEX "Message_runId_status_idx";

-- CreateIndex
CREATE INDEX "InboxEvent_agentId_messageId_idx" ON "InboxEvent"("agentId", "messageId");

-- CreateIndex
CREATE INDEX "ToolCall_messageId_idx" ON "ToolCall"("messageId");


-- Of the messages that are not whole: a handful, however many there are. What sweeps them up looks every 10 s.
CREATE INDEX "Message_open" ON "Message"("runId") WHERE status IN ('STREAMING', 'REQUIRES_ACTION');

-- What waits because of one root: asked each time that something is routed.
CREATE INDEX "InboxEvent_waiting_rootId_idx" ON "InboxEvent"("rootId") WHERE "doneAt" IS NULL AND "runId" IS NULL;
