-- AlterTable
ALTER TABLE "Session" ADD COLUMN     "oidcSid" TEXT COLLATE "C";

-- DropIndex
DROP INDEX "Session_tokenId_idx";

-- CreateIndex
CREATE INDEX "Session_tokenId_oidcSid_idx" ON "Session"("tokenId", "oidcSid");

-- CreateTable
CREATE TABLE "Identity" (
    "issuer" TEXT COLLATE "C" NOT NULL,
    "subject" TEXT COLLATE "C" NOT NULL,
    "humanId" TEXT COLLATE "C" NOT NULL,
    "claimedName" TEXT,
    "claimedPicture" TEXT,
    "claimedEmail" TEXT,
    "gaveAdmin" BOOLEAN NOT NULL DEFAULT false,
    "createdAt" TIMESTAMPTZ(3) NOT NULL,
    "lastUsedAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "Identity_pkey" PRIMARY KEY ("issuer","subject")
);

-- CreateTable
CREATE TABLE "UsedLogoutToken" (
    "hash" TEXT COLLATE "C" NOT NULL,
    "expiresAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "UsedLogoutToken_pkey" PRIMARY KEY ("hash")
);

-- CreateIndex
CREATE INDEX "Identity_humanId_idx" ON "Identity"("humanId");

-- CreateIndex
CREATE INDEX "UsedLogoutToken_expiresAt_idx" ON "UsedLogoutToken"("expiresAt");
