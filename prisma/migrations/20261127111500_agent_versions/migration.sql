ALTER TABLE "Agent" ADD COLUMN "version" INTEGER NOT NULL DEFAULT 0;

ALTER TABLE "Run" ADD COLUMN "agentVersion" INTEGER NOT NULL DEFAULT 0;

CREATE TABLE "AgentVersion" (
    "id" TEXT COLLATE "C" NOT NULL,
    "agentId" TEXT COLLATE "C" NOT NULL,
    "number" INTEGER NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "authorId" TEXT COLLATE "C",
    "note" TEXT,
    "definition" JSONB NOT NULL,

    CONSTRAINT "AgentVersion_pkey" PRIMARY KEY ("id")
);

CREATE UNIQUE INDEX "AgentVersion_agentId_number_key" ON "AgentVersion"("agentId", "number");

ALTER TABLE "AgentVersion" ADD CONSTRAINT "AgentVersion_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;

CREATE TABLE "AgentDraft" (
    "agentId" TEXT COLLATE "C" NOT NULL,
    "id" TEXT COLLATE "C" NOT NULL,
    "baseVersion" INTEGER NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "authorId" TEXT COLLATE "C",
    "note" TEXT,
    "changes" JSONB NOT NULL,
    "headersSealed" TEXT,
    "definition" JSONB NOT NULL,

    CONSTRAINT "AgentDraft_pkey" PRIMARY KEY ("agentId")
);

CREATE UNIQUE INDEX "AgentDraft_id_key" ON "AgentDraft"("id");

ALTER TABLE "AgentDraft" ADD CONSTRAINT "AgentDraft_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;
