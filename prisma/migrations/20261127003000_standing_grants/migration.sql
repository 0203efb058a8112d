-- AlterTable
ALTER TABLE "ToolCall" ADD COLUMN     "grantId" TEXT COLLATE "C";

-- CreateTable
CREATE TABLE "StandingGrant" (
    "id" TEXT COLLATE "C" NOT NULL,
    "agentId" TEXT COLLATE "C" NOT NULL,
    "toolName" TEXT NOT NULL,
    "toolDigest" TEXT NOT NULL,
    "spaceId" TEXT COLLATE "C",
    "quorum" INTEGER NOT NULL,
    "approverIds" TEXT[] COLLATE "C" DEFAULT ARRAY[]::TEXT[],
    "inputSchema" JSONB,
    "maxCalls" INTEGER,
    "usedCalls" INTEGER NOT NULL DEFAULT 0,
    "amountProperty" TEXT,
    "maxAmount" DOUBLE PRECISION,
    "usedAmount" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "proposedById" TEXT COLLATE "C" NOT NULL,
    "places" TEXT[] COLLATE "C" DEFAULT ARRAY[]::TEXT[],
    "label" TEXT[] COLLATE "C" DEFAULT ARRAY[]::TEXT[],
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expiresAt" TIMESTAMPTZ(3) NOT NULL,
    "activeSince" TIMESTAMPTZ(3),
    "deniedAt" TIMESTAMPTZ(3),
    "toolChangedAt" TIMESTAMPTZ(3),
    "revokedAt" TIMESTAMPTZ(3),
    "revokedById" TEXT COLLATE "C",

    CONSTRAINT "StandingGrant_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "GrantDecision" (
    "grantId" TEXT COLLATE "C" NOT NULL,
    "humanId" TEXT COLLATE "C" NOT NULL,
    "approve" BOOLEAN NOT NULL,
    "reason" TEXT,
    "at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "GrantDecision_pkey" PRIMARY KEY ("grantId","humanId")
);

-- CreateIndex
CREATE INDEX "StandingGrant_agentId_toolName_idx" ON "StandingGrant"("agentId", "toolName");

-- CreateIndex
CREATE INDEX "StandingGrant_spaceId_idx" ON "StandingGrant"("spaceId");

-- CreateIndex
CREATE INDEX "GrantDecision_humanId_idx" ON "GrantDecision"("humanId");

-- AddForeignKey
ALTER TABLE "GrantDecision" ADD CONSTRAINT "GrantDecision_grantId_fkey" FOREIGN KEY ("grantId") REFERENCES "StandingGrant"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Few calls have a grant.
CREATE INDEX "ToolCall_grant" ON "ToolCall"("grantId") WHERE "grantId" IS NOT NULL;
