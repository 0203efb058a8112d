-- CreateSchema
CREATE SCHEMA IF NOT EXISTS "public";

-- CreateEnum
CREATE TYPE "EntityKind" AS ENUM ('HUMAN', 'AGENT');

-- CreateEnum
CREATE TYPE "Mind" AS ENUM ('STATELESS', 'PERSISTENT');

-- CreateEnum
CREATE TYPE "Toolset" AS ENUM ('ACTIVE_SPACE', 'SPACE_TOOLS');

-- CreateEnum
CREATE TYPE "ToolExecution" AS ENUM ('HTTP', 'SPACE', 'EXTERNAL', 'INTERNAL');

-- CreateEnum
CREATE TYPE "Routing" AS ENUM ('BROADCAST', 'ADMIN', 'MENTION_CHAIN');

-- CreateEnum
CREATE TYPE "MessageStatus" AS ENUM ('STREAMING', 'REQUIRES_ACTION', 'COMPLETE', 'INTERRUPTED');

-- CreateEnum
CREATE TYPE "OutcomeKind" AS ENUM ('RUN', 'INBOX', 'SKIPPED', 'NOT_ROUTED', 'LOOP_LIMIT', 'DUPLICATE');

-- CreateEnum
CREATE TYPE "RunStatus" AS ENUM ('QUEUED', 'RUNNING', 'WAITING_TOOL', 'COMPLETED', 'FAILED', 'CANCELED');

-- CreateEnum
CREATE TYPE "TriggerType" AS ENUM ('SPACE_MESSAGE', 'PLAN', 'SERVICE', 'INBOX');

-- CreateEnum
CREATE TYPE "ToolCallStatus" AS ENUM ('STREAMING', 'RUNNING', 'WAITING', 'DONE', 'FAILED', 'TIMED_OUT', 'CANCELED');

-- CreateEnum
CREATE TYPE "InboxEventType" AS ENUM ('SPACE_MESSAGE', 'PLAN', 'SERVICE', 'TOOL_RESULT');

-- CreateEnum
CREATE TYPE "GoalStatus" AS ENUM ('ACTIVE', 'COMPLETED', 'ABANDONED');

-- CreateEnum
CREATE TYPE "TokenScope" AS ENUM ('ADMIN', 'HUMAN', 'SERVICE');

-- CreateTable
CREATE TABLE "Entity" (
    "id" TEXT NOT NULL,
    "kind" "EntityKind" NOT NULL,
    "name" TEXT NOT NULL,
    "externalId" TEXT,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "Entity_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "Agent" (
    "id" TEXT NOT NULL,
    "description" TEXT,
    "instructions" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "mind" "Mind" NOT NULL,
    "toolset" "Toolset" NOT NULL,
    "maxSteps" INTEGER NOT NULL,
    "tokenBudget" INTEGER,
    "maxConcurrentRuns" INTEGER NOT NULL,
    "phases" JSONB NOT NULL DEFAULT '[]',
    "cycle" JSONB,
    "cycleCount" INTEGER NOT NULL DEFAULT 0,
    "firstCycle" INTEGER NOT NULL DEFAULT 0,

    CONSTRAINT "Agent_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "AgentTool" (
    "agentId" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "position" INTEGER NOT NULL,
    "description" TEXT NOT NULL,
    "inputSchema" JSONB NOT NULL,
    "execution" "ToolExecution" NOT NULL,
    "visible" BOOLEAN NOT NULL,
    "timeoutMs" INTEGER NOT NULL,
    "url" TEXT,
    "headersSealed" TEXT,
    "headerNames" TEXT[],

    CONSTRAINT "AgentTool_pkey" PRIMARY KEY ("agentId","name")
);

-- CreateTable
CREATE TABLE "McpServer" (
    "agentId" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "position" INTEGER NOT NULL,
    "url" TEXT NOT NULL,
    "headersSealed" TEXT,
    "headerNames" TEXT[],
    "allowedTools" TEXT[],
    "restricted" BOOLEAN NOT NULL DEFAULT false,
    "fingerprints" JSONB NOT NULL DEFAULT '{}',

    CONSTRAINT "McpServer_pkey" PRIMARY KEY ("agentId","name")
);

-- CreateTable
CREATE TABLE "Memory" (
    "agentId" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "value" TEXT NOT NULL,
    "updatedAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "Memory_pkey" PRIMARY KEY ("agentId","key")
);

-- CreateTable
CREATE TABLE "Goal" (
    "id" TEXT NOT NULL,
    "agentId" TEXT NOT NULL,
    "description" TEXT NOT NULL,
    "status" "GoalStatus" NOT NULL DEFAULT 'ACTIVE',
    "updatedAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "Goal_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "Plan" (
    "id" TEXT NOT NULL,
    "agentId" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "instruction" TEXT NOT NULL,
    "cron" TEXT,
    "nextRunAt" TIMESTAMPTZ(3),
    "enabled" BOOLEAN NOT NULL DEFAULT true,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "Plan_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "PlanFiring" (
    "planId" TEXT NOT NULL,
    "slot" TIMESTAMPTZ(3) NOT NULL,
    "rootId" TEXT NOT NULL,
    "firedAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "PlanFiring_pkey" PRIMARY KEY ("planId","slot")
);

-- CreateTable
CREATE TABLE "Space" (
    "id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "description" TEXT,
    "routing" "Routing" NOT NULL,
    "adminAgentId" TEXT,
    "lastSeq" INTEGER NOT NULL DEFAULT 0,
    "lastPickedId" TEXT,
    "lastPickedJoinedAt" TIMESTAMPTZ(3),
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "Space_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "Membership" (
    "spaceId" TEXT NOT NULL,
    "entityId" TEXT NOT NULL,
    "joinedAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "lastReadSeq" INTEGER NOT NULL DEFAULT 0,

    CONSTRAINT "Membership_pkey" PRIMARY KEY ("spaceId","entityId")
);

-- CreateTable
CREATE TABLE "Message" (
    "id" TEXT NOT NULL,
    "spaceId" TEXT NOT NULL,
    "seq" INTEGER NOT NULL,
    "senderId" TEXT NOT NULL,
    "status" "MessageStatus" NOT NULL,
    "parts" JSONB NOT NULL,
    "mentionedAgentId" TEXT,
    "runId" TEXT,
    "runPostKey" TEXT,
    "idempotencyKey" TEXT,
    "rootId" TEXT NOT NULL,
    "depth" INTEGER NOT NULL,
    "origin" JSONB,
    "routedAt" TIMESTAMPTZ(3),
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "Message_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "Outcome" (
    "messageId" TEXT NOT NULL,
    "agentId" TEXT NOT NULL,
    "kind" "OutcomeKind" NOT NULL,
    "reason" TEXT,
    "runId" TEXT,

    CONSTRAINT "Outcome_pkey" PRIMARY KEY ("messageId","agentId")
);

-- CreateTable
CREATE TABLE "Run" (
    "id" TEXT NOT NULL,
    "agentId" TEXT NOT NULL,
    "status" "RunStatus" NOT NULL,
    "attempt" INTEGER NOT NULL DEFAULT 0,
    "fruitlessAttempts" INTEGER NOT NULL DEFAULT 0,
    "dedupKey" TEXT,
    "triggerType" "TriggerType" NOT NULL,
    "triggerName" TEXT,
    "triggerSpaceId" TEXT,
    "triggerMessageId" TEXT,
    "triggerSenderId" TEXT,
    "triggerServiceId" TEXT,
    "triggerSummary" TEXT NOT NULL,
    "triggerPayload" JSONB,
    "activeSpaceId" TEXT,
    "enteredSeq" INTEGER,
    "stepCount" INTEGER NOT NULL DEFAULT 0,
    "inputTokens" INTEGER NOT NULL DEFAULT 0,
    "outputTokens" INTEGER NOT NULL DEFAULT 0,
    "usageEstimated" BOOLEAN NOT NULL DEFAULT false,
    "summary" TEXT,
    "error" TEXT,
    "depth" INTEGER NOT NULL,
    "rootId" TEXT NOT NULL,
    "parentRunId" TEXT,
    "chainId" TEXT,
    "wokenBy" JSONB,
    "jobId" TEXT,
    "state" JSONB NOT NULL DEFAULT '{}',
    "queuedAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "startedAt" TIMESTAMPTZ(3),
    "finishedAt" TIMESTAMPTZ(3),

    CONSTRAINT "Run_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "RunSpace" (
    "runId" TEXT NOT NULL,
    "spaceId" TEXT NOT NULL,

    CONSTRAINT "RunSpace_pkey" PRIMARY KEY ("runId","spaceId")
);

-- CreateTable
CREATE TABLE "Step" (
    "id" TEXT NOT NULL,
    "runId" TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    "model" TEXT NOT NULL,
    "instructions" TEXT,
    "messagesKept" INTEGER NOT NULL,
    "messagesAdded" JSONB NOT NULL,
    "activeTools" TEXT[],
    "assistant" JSONB NOT NULL,
    "finishReason" TEXT,
    "inputTokens" INTEGER NOT NULL DEFAULT 0,
    "outputTokens" INTEGER NOT NULL DEFAULT 0,
    "usageEstimated" BOOLEAN NOT NULL DEFAULT false,
    "msToFirstChunk" INTEGER,
    "durationMs" INTEGER,
    "startedAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "Step_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "ToolCall" (
    "id" TEXT NOT NULL,
    "runId" TEXT NOT NULL,
    "agentId" TEXT NOT NULL,
    "stepIndex" INTEGER NOT NULL,
    "modelCallId" TEXT NOT NULL,
    "toolName" TEXT NOT NULL,
    "execution" "ToolExecution",
    "status" "ToolCallStatus" NOT NULL,
    "input" JSONB,
    "output" JSONB,
    "error" TEXT,
    "messageId" TEXT,
    "spaceId" TEXT,
    "expiresAt" TIMESTAMPTZ(3),
    "state" JSONB,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "settledAt" TIMESTAMPTZ(3),

    CONSTRAINT "ToolCall_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "InboxEvent" (
    "id" TEXT NOT NULL,
    "agentId" TEXT NOT NULL,
    "type" "InboxEventType" NOT NULL,
    "urgent" BOOLEAN NOT NULL DEFAULT false,
    "payload" JSONB NOT NULL,
    "dedupKey" TEXT NOT NULL,
    "spaceId" TEXT,
    "messageId" TEXT,
    "rootId" TEXT NOT NULL,
    "depth" INTEGER NOT NULL,
    "parentRunId" TEXT,
    "chainId" TEXT,
    "wokenBy" JSONB,
    "runId" TEXT,
    "doneAt" TIMESTAMPTZ(3),
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "InboxEvent_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "Cycle" (
    "agentId" TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    "runId" TEXT NOT NULL,
    "messages" JSONB NOT NULL,
    "summary" TEXT NOT NULL,
    "tokenEstimate" INTEGER NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "Cycle_pkey" PRIMARY KEY ("agentId","index")
);

-- CreateTable
CREATE TABLE "Chain" (
    "id" TEXT NOT NULL,
    "spaceId" TEXT NOT NULL,
    "depth" INTEGER NOT NULL DEFAULT 0,
    "holderId" TEXT,
    "holderRunId" TEXT,
    "replyStack" JSONB NOT NULL DEFAULT '[]',
    "mentionedPairs" JSONB NOT NULL DEFAULT '[]',
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "Chain_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "AccessToken" (
    "id" TEXT NOT NULL,
    "hash" TEXT NOT NULL,
    "scope" "TokenScope" NOT NULL,
    "humanId" TEXT,
    "label" TEXT,
    "serviceName" TEXT,
    "agentIds" TEXT[],
    "restricted" BOOLEAN NOT NULL DEFAULT false,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expiresAt" TIMESTAMPTZ(3),
    "revokedAt" TIMESTAMPTZ(3),

    CONSTRAINT "AccessToken_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "Webhook" (
    "id" TEXT NOT NULL,
    "agentId" TEXT NOT NULL,
    "serviceName" TEXT NOT NULL,
    "secretSealed" TEXT NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "Webhook_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "Entity_externalId_key" ON "Entity"("externalId");

-- CreateIndex
CREATE INDEX "Entity_kind_id_idx" ON "Entity"("kind", "id");

-- CreateIndex
CREATE INDEX "Goal_agentId_id_idx" ON "Goal"("agentId", "id");

-- CreateIndex
CREATE INDEX "Plan_enabled_nextRunAt_idx" ON "Plan"("enabled", "nextRunAt");

-- CreateIndex
CREATE UNIQUE INDEX "Plan_agentId_name_key" ON "Plan"("agentId", "name");

-- CreateIndex
CREATE INDEX "Membership_entityId_spaceId_idx" ON "Membership"("entityId", "spaceId");

-- CreateIndex
CREATE INDEX "Message_runId_status_idx" ON "Message"("runId", "status");

-- CreateIndex
CREATE UNIQUE INDEX "Message_spaceId_seq_key" ON "Message"("spaceId", "seq");

-- CreateIndex
CREATE UNIQUE INDEX "Message_spaceId_senderId_idempotencyKey_key" ON "Message"("spaceId", "senderId", "idempotencyKey");

-- CreateIndex
CREATE UNIQUE INDEX "Message_runId_runPostKey_key" ON "Message"("runId", "runPostKey");

-- CreateIndex
CREATE INDEX "Outcome_agentId_messageId_idx" ON "Outcome"("agentId", "messageId");

-- CreateIndex
CREATE UNIQUE INDEX "Run_dedupKey_key" ON "Run"("dedupKey");

-- CreateIndex
CREATE INDEX "Run_agentId_status_id_idx" ON "Run"("agentId", "status", "id");

-- CreateIndex
CREATE INDEX "Run_agentId_id_idx" ON "Run"("agentId", "id");

-- CreateIndex
CREATE INDEX "Run_rootId_idx" ON "Run"("rootId");

-- CreateIndex
CREATE INDEX "Run_parentRunId_idx" ON "Run"("parentRunId");

-- CreateIndex
CREATE INDEX "Run_chainId_idx" ON "Run"("chainId");

-- CreateIndex
CREATE INDEX "Run_status_idx" ON "Run"("status");

-- CreateIndex
CREATE INDEX "Run_triggerMessageId_idx" ON "Run"("triggerMessageId");

-- CreateIndex
CREATE INDEX "RunSpace_spaceId_idx" ON "RunSpace"("spaceId");

-- CreateIndex
CREATE UNIQUE INDEX "Step_runId_index_key" ON "Step"("runId", "index");

-- CreateIndex
CREATE INDEX "ToolCall_status_expiresAt_idx" ON "ToolCall"("status", "expiresAt");

-- CreateIndex
CREATE INDEX "ToolCall_spaceId_status_idx" ON "ToolCall"("spaceId", "status");

-- CreateIndex
CREATE INDEX "ToolCall_agentId_status_idx" ON "ToolCall"("agentId", "status");

-- CreateIndex
CREATE UNIQUE INDEX "ToolCall_runId_stepIndex_modelCallId_key" ON "ToolCall"("runId", "stepIndex", "modelCallId");

-- CreateIndex
CREATE INDEX "InboxEvent_agentId_doneAt_id_idx" ON "InboxEvent"("agentId", "doneAt", "id");

-- CreateIndex
CREATE INDEX "InboxEvent_runId_idx" ON "InboxEvent"("runId");

-- CreateIndex
CREATE UNIQUE INDEX "InboxEvent_agentId_dedupKey_key" ON "InboxEvent"("agentId", "dedupKey");

-- CreateIndex
CREATE UNIQUE INDEX "AccessToken_hash_key" ON "AccessToken"("hash");

-- AddForeignKey
ALTER TABLE "Agent" ADD CONSTRAINT "Agent_id_fkey" FOREIGN KEY ("id") REFERENCES "Entity"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "AgentTool" ADD CONSTRAINT "AgentTool_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "McpServer" ADD CONSTRAINT "McpServer_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "Memory" ADD CONSTRAINT "Memory_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "Goal" ADD CONSTRAINT "Goal_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "Plan" ADD CONSTRAINT "Plan_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "Membership" ADD CONSTRAINT "Membership_spaceId_fkey" FOREIGN KEY ("spaceId") REFERENCES "Space"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "Membership" ADD CONSTRAINT "Membership_entityId_fkey" FOREIGN KEY ("entityId") REFERENCES "Entity"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "Message" ADD CONSTRAINT "Message_spaceId_fkey" FOREIGN KEY ("spaceId") REFERENCES "Space"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "Step" ADD CONSTRAINT "Step_runId_fkey" FOREIGN KEY ("runId") REFERENCES "Run"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- An agent thinks one cycle at a time, over all processes. Prisma's schema cannot say this: it is written by hand.
CREATE UNIQUE INDEX "Run_one_cycle_per_agent" ON "Run"("agentId")
  WHERE "triggerType" = 'INBOX' AND "status" IN ('QUEUED', 'RUNNING', 'WAITING_TOOL');
