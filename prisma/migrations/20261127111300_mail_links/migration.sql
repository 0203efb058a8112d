-- AlterTable
ALTER TABLE "Mail" ADD COLUMN "counted" TEXT COLLATE "C";

-- CreateIndex
CREATE INDEX "Mail_counted_createdAt_idx" ON "Mail"("counted", "createdAt");

-- CreateTable
CREATE TABLE "MailCode" (
    "hash" TEXT COLLATE "C" NOT NULL,
    "purpose" TEXT NOT NULL,
    "email" TEXT COLLATE "C" NOT NULL,
    "humanId" TEXT COLLATE "C",
    "invitationId" TEXT COLLATE "C",
    "createdAt" TIMESTAMPTZ(3) NOT NULL,
    "expiresAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "MailCode_pkey" PRIMARY KEY ("hash")
);

-- CreateTable
CREATE TABLE "MailInvitation" (
    "id" TEXT COLLATE "C" NOT NULL,
    "email" TEXT COLLATE "C" NOT NULL,
    "spaceIds" TEXT[] COLLATE "C",
    "inviterId" TEXT COLLATE "C" NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL,
    "expiresAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "MailInvitation_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "MailCode_humanId_idx" ON "MailCode"("humanId");

-- CreateIndex
CREATE INDEX "MailCode_invitationId_idx" ON "MailCode"("invitationId");

-- CreateIndex
CREATE INDEX "MailCode_expiresAt_idx" ON "MailCode"("expiresAt");

-- CreateIndex
CREATE INDEX "MailInvitation_inviterId_idx" ON "MailInvitation"("inviterId");

-- CreateIndex
CREATE INDEX "MailInvitation_email_idx" ON "MailInvitation"(lower("email"));

CREATE INDEX "MailInvitation_expiresAt_idx" ON "MailInvitation"("expiresAt");
