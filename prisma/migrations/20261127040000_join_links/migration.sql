-- CreateTable
CREATE TABLE "JoinLink" (
    "id" TEXT COLLATE "C" NOT NULL,
    "spaceId" TEXT COLLATE "C" NOT NULL,
    "hash" TEXT COLLATE "C" NOT NULL,
    "codeSealed" TEXT NOT NULL,
    "createdById" TEXT COLLATE "C",
    "maxUses" INTEGER,
    "uses" INTEGER NOT NULL DEFAULT 0,
    "createdAt" TIMESTAMPTZ(3) NOT NULL,
    "expiresAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "JoinLink_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "JoinLink_hash_key" ON "JoinLink"("hash");

-- CreateIndex
CREATE INDEX "JoinLink_spaceId_idx" ON "JoinLink"("spaceId");

-- CreateIndex
CREATE INDEX "JoinLink_createdById_idx" ON "JoinLink"("createdById");

-- CreateIndex
CREATE INDEX "JoinLink_expiresAt_idx" ON "JoinLink"("expiresAt");
