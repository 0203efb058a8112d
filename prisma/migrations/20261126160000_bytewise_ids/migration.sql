-- Ids are ordered by their bytes, whatever the database's collation is: they are hexadecimal and start with their time, and in
-- Danish and Norwegian "aa" comes after "z". No table is rewritten; PostgreSQL rebuilds the indexes that contain these columns.
-- Columns that hold the same kind of id have the same collation, because PostgreSQL compares no two columns with different ones.
DROP TRIGGER "Space_settings" ON "Space";

ALTER TABLE "AccessToken"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN hash TYPE text COLLATE "C",
  ALTER COLUMN "humanId" TYPE text COLLATE "C",
  ALTER COLUMN "agentIds" TYPE text[] COLLATE "C";
ALTER TABLE "Agent"
  ALTER COLUMN id TYPE text COLLATE "C";
ALTER TABLE "AgentTool"
  ALTER COLUMN "agentId" TYPE text COLLATE "C";
ALTER TABLE "AuditEntry"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "actorId" TYPE text COLLATE "C",
  ALTER COLUMN "targetId" TYPE text COLLATE "C";
ALTER TABLE "Chain"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "spaceId" TYPE text COLLATE "C",
  ALTER COLUMN "holderId" TYPE text COLLATE "C",
  ALTER COLUMN "holderRunId" TYPE text COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C";
ALTER TABLE "Cycle"
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "runId" TYPE text COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C",
  ALTER COLUMN id TYPE text COLLATE "C";
ALTER TABLE "DailyUsage"
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "spaceId" TYPE text COLLATE "C";
ALTER TABLE "Decision"
  ALTER COLUMN "toolCallId" TYPE text COLLATE "C",
  ALTER COLUMN "humanId" TYPE text COLLATE "C";
ALTER TABLE "Entity"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "externalId" TYPE text COLLATE "C";
ALTER TABLE "FormerMember"
  ALTER COLUMN "spaceId" TYPE text COLLATE "C",
  ALTER COLUMN "entityId" TYPE text COLLATE "C";
ALTER TABLE "Goal"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C";
ALTER TABLE "InboxEvent"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "dedupKey" TYPE text COLLATE "C",
  ALTER COLUMN "spaceId" TYPE text COLLATE "C",
  ALTER COLUMN "messageId" TYPE text COLLATE "C",
  ALTER COLUMN "rootId" TYPE text COLLATE "C",
  ALTER COLUMN "parentRunId" TYPE text COLLATE "C",
  ALTER COLUMN "chainId" TYPE text COLLATE "C",
  ALTER COLUMN "runId" TYPE text COLLATE "C",
  ALTER COLUMN askers TYPE text[] COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C";
ALTER TABLE "Invitation"
  ALTER COLUMN hash TYPE text COLLATE "C",
  ALTER COLUMN "humanId" TYPE text COLLATE "C";
ALTER TABLE "McpServer"
  ALTER COLUMN "agentId" TYPE text COLLATE "C";
ALTER TABLE "Membership"
  ALTER COLUMN "spaceId" TYPE text COLLATE "C",
  ALTER COLUMN "entityId" TYPE text COLLATE "C";
ALTER TABLE "Memory"
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C",
  ALTER COLUMN id TYPE text COLLATE "C";
ALTER TABLE "Message"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "spaceId" TYPE text COLLATE "C",
  ALTER COLUMN "senderId" TYPE text COLLATE "C",
  ALTER COLUMN "mentionedAgentId" TYPE text COLLATE "C",
  ALTER COLUMN "runId" TYPE text COLLATE "C",
  ALTER COLUMN "runPostKey" TYPE text COLLATE "C",
  ALTER COLUMN "idempotencyKey" TYPE text COLLATE "C",
  ALTER COLUMN "rootId" TYPE text COLLATE "C",
  ALTER COLUMN askers TYPE text[] COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C";
ALTER TABLE "Notification"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "toolCallId" TYPE text COLLATE "C";
ALTER TABLE "Outcome"
  ALTER COLUMN "messageId" TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "runId" TYPE text COLLATE "C";
ALTER TABLE "Plan"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "originId" TYPE text COLLATE "C",
  ALTER COLUMN askers TYPE text[] COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C";
ALTER TABLE "PlanFiring"
  ALTER COLUMN "planId" TYPE text COLLATE "C",
  ALTER COLUMN "rootId" TYPE text COLLATE "C",
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "originId" TYPE text COLLATE "C";
ALTER TABLE "RootUsage"
  ALTER COLUMN "rootId" TYPE text COLLATE "C";
ALTER TABLE "Run"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "dedupKey" TYPE text COLLATE "C",
  ALTER COLUMN "triggerSpaceId" TYPE text COLLATE "C",
  ALTER COLUMN "triggerMessageId" TYPE text COLLATE "C",
  ALTER COLUMN "triggerSenderId" TYPE text COLLATE "C",
  ALTER COLUMN "triggerServiceId" TYPE text COLLATE "C",
  ALTER COLUMN "activeSpaceId" TYPE text COLLATE "C",
  ALTER COLUMN "rootId" TYPE text COLLATE "C",
  ALTER COLUMN "parentRunId" TYPE text COLLATE "C",
  ALTER COLUMN "chainId" TYPE text COLLATE "C",
  ALTER COLUMN "retryOfId" TYPE text COLLATE "C",
  ALTER COLUMN "stoppedById" TYPE text COLLATE "C",
  ALTER COLUMN "deepestSpaceId" TYPE text COLLATE "C",
  ALTER COLUMN "usageSpaceId" TYPE text COLLATE "C",
  ALTER COLUMN askers TYPE text[] COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C",
  ALTER COLUMN forgets TYPE text[] COLLATE "C";
ALTER TABLE "RunSpace"
  ALTER COLUMN "runId" TYPE text COLLATE "C",
  ALTER COLUMN "spaceId" TYPE text COLLATE "C";
ALTER TABLE "Space"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "adminAgentId" TYPE text COLLATE "C",
  ALTER COLUMN "lastPickedId" TYPE text COLLATE "C",
  ALTER COLUMN "creatorId" TYPE text COLLATE "C";
ALTER TABLE "SpaceCreator"
  ALTER COLUMN "humanId" TYPE text COLLATE "C";
ALTER TABLE "Step"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "runId" TYPE text COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C";
ALTER TABLE "ToolCall"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "runId" TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C",
  ALTER COLUMN "modelCallId" TYPE text COLLATE "C",
  ALTER COLUMN "messageId" TYPE text COLLATE "C",
  ALTER COLUMN "spaceId" TYPE text COLLATE "C",
  ALTER COLUMN "answeredById" TYPE text COLLATE "C",
  ALTER COLUMN "approverIds" TYPE text[] COLLATE "C",
  ALTER COLUMN "claimedById" TYPE text COLLATE "C",
  ALTER COLUMN "escalateToIds" TYPE text[] COLLATE "C",
  ALTER COLUMN label TYPE text[] COLLATE "C",
  ALTER COLUMN places TYPE text[] COLLATE "C";
ALTER TABLE "Webhook"
  ALTER COLUMN id TYPE text COLLATE "C",
  ALTER COLUMN "agentId" TYPE text COLLATE "C";

CREATE TRIGGER "Space_settings" BEFORE UPDATE OF name, routing, "adminAgentId", "lastPickedId", "lastPickedJoinedAt", "deletedAt", confidential ON "Space"
  FOR EACH ROW EXECUTE FUNCTION "raiseSpaceVersion"();
