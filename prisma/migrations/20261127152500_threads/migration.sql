-- Threads: replies are messages of the space that name the message on which their thread hangs.

ALTER TABLE "Message" ADD COLUMN "replyToId" TEXT COLLATE "C", ADD COLUMN "threadRootId" TEXT COLLATE "C";
CREATE INDEX "Message_thread" ON "Message"("threadRootId", "seq") WHERE "threadRootId" IS NOT NULL;
-- A page, a prompt or an unread count outside of threads costs the same, however many replies lie in between.
CREATE INDEX "Message_outside" ON "Message"("spaceId", "seq") WHERE "threadRootId" IS NULL;

ALTER TABLE "Run" ADD COLUMN "threadRootId" TEXT COLLATE "C";

CREATE TABLE "ThreadReader" (
    "threadRootId" TEXT COLLATE "C" NOT NULL,
    "humanId" TEXT COLLATE "C" NOT NULL,
    "spaceId" TEXT COLLATE "C" NOT NULL,
    "lastReadSeq" INTEGER NOT NULL DEFAULT 0,
    "takesPart" BOOLEAN NOT NULL DEFAULT false,

    CONSTRAINT "ThreadReader_pkey" PRIMARY KEY ("threadRootId", "humanId")
);
CREATE INDEX "ThreadReader_humanId_spaceId_idx" ON "ThreadReader"("humanId", "spaceId");

CREATE TABLE "ThreadTurn" (
    "threadRootId" TEXT COLLATE "C" NOT NULL,
    "spaceId" TEXT COLLATE "C" NOT NULL,
    "lastPickedId" TEXT COLLATE "C" NOT NULL,
    "lastPickedJoinedAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "ThreadTurn_pkey" PRIMARY KEY ("threadRootId")
);
CREATE INDEX "ThreadTurn_spaceId_idx" ON "ThreadTurn"("spaceId");
