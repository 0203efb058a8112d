-- The settings of agents on other servers, which speak A2A.
ALTER TABLE "Agent"
  ADD COLUMN "remoteHeadersSealed" TEXT COLLATE "C",
  ADD COLUMN "remoteHeaderNames" TEXT[] COLLATE "C" DEFAULT ARRAY[]::TEXT[],
  ADD COLUMN "remoteApproval" JSONB,
  ADD COLUMN "remoteMayReceiveConfidential" BOOLEAN NOT NULL DEFAULT false,
  ADD COLUMN "remoteCard" JSONB;

-- The messages to agents on other servers, by the conversation that they belong to (src/stores/remote-call-store.ts).
CREATE INDEX "ToolCall_remote" ON "ToolCall" ("agentId", (state->'remote'->>'place'), id) WHERE "toolName" = 'ask_remote_agent';
