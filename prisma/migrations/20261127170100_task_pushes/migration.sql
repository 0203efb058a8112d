-- CreateTable
CREATE TABLE "TaskPush" (
    "viewerId" TEXT COLLATE "C" NOT NULL,
    "taskId" TEXT COLLATE "C" NOT NULL,
    "id" TEXT COLLATE "C" NOT NULL,
    "tokenId" TEXT COLLATE "C",
    "expiresAt" TIMESTAMPTZ(3),
    "sealed" TEXT NOT NULL,
    "sentState" TEXT NOT NULL,
    "leasedUntil" TIMESTAMPTZ(3) NOT NULL,
    "leaseId" TEXT COLLATE "C" NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "TaskPush_pkey" PRIMARY KEY ("viewerId","taskId","id")
);

-- CreateIndex
CREATE INDEX "TaskPush_tokenId_idx" ON "TaskPush"("tokenId");

-- CreateIndex
CREATE INDEX "TaskPush_leasedUntil_idx" ON "TaskPush"("leasedUntil");
