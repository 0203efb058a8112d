-- AlterTable
ALTER TABLE "Message" ADD COLUMN     "editedAt" TIMESTAMPTZ(3),
ADD COLUMN     "deletedAt" TIMESTAMPTZ(3),
ADD COLUMN     "reactionCount" INTEGER NOT NULL DEFAULT 0;

-- AlterTable
ALTER TABLE "InboxEvent" ADD COLUMN     "quiet" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "redactions" INTEGER NOT NULL DEFAULT 0;

-- CreateTable
CREATE TABLE "MessageVersion" (
    "messageId" TEXT COLLATE "C" NOT NULL,
    "number" INTEGER NOT NULL,
    "text" TEXT NOT NULL,
    "editedAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "MessageVersion_pkey" PRIMARY KEY ("messageId","number")
);

-- CreateTable
CREATE TABLE "MessageReaction" (
    "messageId" TEXT COLLATE "C" NOT NULL,
    "emoji" TEXT COLLATE "C" NOT NULL,
    "entityId" TEXT COLLATE "C" NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "MessageReaction_pkey" PRIMARY KEY ("messageId","emoji","entityId")
);

-- CreateTable
CREATE TABLE "MessageDeletion" (
    "messageId" TEXT COLLATE "C" NOT NULL,
    "spaceId" TEXT COLLATE "C" NOT NULL,
    "sentAt" TIMESTAMPTZ(3) NOT NULL,
    "runId" TEXT COLLATE "C",
    "texts" TEXT[],
    "afterId" TEXT COLLATE "C",
    "living" TEXT[] COLLATE "C" DEFAULT ARRAY[]::TEXT[],
    "takenUntil" TIMESTAMPTZ(3),

    CONSTRAINT "MessageDeletion_pkey" PRIMARY KEY ("messageId")
);

-- CreateIndex
CREATE INDEX "MessageReaction_entityId_idx" ON "MessageReaction"("entityId");

-- AddForeignKey
ALTER TABLE "MessageVersion" ADD CONSTRAINT "MessageVersion_messageId_fkey" FOREIGN KEY ("messageId") REFERENCES "Message"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "MessageReaction" ADD CONSTRAINT "MessageReaction_messageId_fkey" FOREIGN KEY ("messageId") REFERENCES "Message"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Inboxes that have a reason for a cycle: src/runs/claiming.ts.
DROP INDEX "InboxEvent_waiting_idx";
CREATE INDEX "InboxEvent_waiting_idx" ON "InboxEvent"("agentId", "id") WHERE "doneAt" IS NULL AND "runId" IS NULL AND "waitsUntil" IS NULL AND NOT quiet;
