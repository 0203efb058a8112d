-- CreateEnum
CREATE TYPE "NotifyLevel" AS ENUM ('ALL', 'MENTIONS', 'NOTHING');

-- CreateEnum
CREATE TYPE "NoticeKind" AS ENUM ('DECISION_WAITING', 'MENTION', 'MESSAGE', 'RUN_FAILED');

-- AlterTable
ALTER TABLE "Membership" ADD COLUMN     "notifyLevel" "NotifyLevel" NOT NULL DEFAULT 'MENTIONS';

-- The flow that posts a message decides by the cached levels whether anybody is notified, so a change raises the version.
CREATE FUNCTION "raiseVersionOfSpace"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE "Space" SET version = version + 1 WHERE id = NEW."spaceId";
  RETURN NULL;
END $$;
CREATE TRIGGER "Membership_level" AFTER UPDATE OF "notifyLevel" ON "Membership"
  FOR EACH ROW WHEN (OLD."notifyLevel" <> NEW."notifyLevel") EXECUTE FUNCTION "raiseVersionOfSpace"();

-- CreateTable
CREATE TABLE "NotificationSettings" (
    "humanId" TEXT COLLATE "C" NOT NULL,
    "push" BOOLEAN NOT NULL DEFAULT true,
    "mail" BOOLEAN,
    "notifyAfterMinutes" INTEGER NOT NULL DEFAULT 15,
    "mailedAt" TIMESTAMPTZ(3)[],

    CONSTRAINT "NotificationSettings_pkey" PRIMARY KEY ("humanId")
);

-- CreateTable
CREATE TABLE "PushSubscription" (
    "id" TEXT COLLATE "C" NOT NULL,
    "humanId" TEXT COLLATE "C" NOT NULL,
    "endpoint" TEXT NOT NULL,
    "hash" TEXT COLLATE "C" NOT NULL,
    "p256dh" TEXT NOT NULL,
    "auth" TEXT NOT NULL,
    "tokenId" TEXT COLLATE "C",
    "createdAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "PushSubscription_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "Notice" (
    "id" TEXT COLLATE "C" NOT NULL,
    "humanId" TEXT COLLATE "C" NOT NULL,
    "kind" "NoticeKind" NOT NULL,
    "subjectId" TEXT COLLATE "C" NOT NULL,
    "spaceId" TEXT COLLATE "C",
    "messageId" TEXT COLLATE "C",
    "toolCallId" TEXT COLLATE "C",
    "runId" TEXT COLLATE "C",
    "createdAt" TIMESTAMPTZ(3) NOT NULL,
    "mailAt" TIMESTAMPTZ(3),

    CONSTRAINT "Notice_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "PushKeys" (
    "id" INTEGER NOT NULL,
    "publicKey" TEXT NOT NULL,
    "privateSealed" TEXT NOT NULL,

    CONSTRAINT "PushKeys_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "PushSubscription_humanId_hash_key" ON "PushSubscription"("humanId", "hash");

-- CreateIndex
CREATE INDEX "PushSubscription_hash_idx" ON "PushSubscription"("hash");

-- CreateIndex
CREATE INDEX "PushSubscription_tokenId_idx" ON "PushSubscription"("tokenId");

-- CreateIndex
CREATE UNIQUE INDEX "Notice_humanId_kind_subjectId_key" ON "Notice"("humanId", "kind", "subjectId");

-- CreateIndex
CREATE INDEX "Notice_humanId_createdAt_idx" ON "Notice"("humanId", "createdAt");

-- CreateIndex
CREATE INDEX "Notice_humanId_mailAt_idx" ON "Notice"("humanId", "mailAt");

-- CreateIndex
CREATE INDEX "Notice_createdAt_idx" ON "Notice"("createdAt");
