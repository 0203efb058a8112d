-- CreateTable
CREATE TABLE "McpPersonAuthorization" (
    "agentId" TEXT COLLATE "C" NOT NULL,
    "name" TEXT NOT NULL,
    "humanId" TEXT COLLATE "C" NOT NULL,
    "url" TEXT NOT NULL,
    "sealed" TEXT NOT NULL,

    CONSTRAINT "McpPersonAuthorization_pkey" PRIMARY KEY ("agentId","name","humanId")
);

-- CreateIndex
CREATE INDEX "McpPersonAuthorization_humanId_idx" ON "McpPersonAuthorization"("humanId");

-- AddForeignKey
ALTER TABLE "McpPersonAuthorization" ADD CONSTRAINT "McpPersonAuthorization_agentId_fkey" FOREIGN KEY ("agentId") REFERENCES "Agent"("id") ON DELETE CASCADE ON UPDATE CASCADE;
