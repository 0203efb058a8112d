-- CreateTable
CREATE TABLE "Conversation" (
    "key" TEXT COLLATE "C" NOT NULL,
    "spaceId" TEXT COLLATE "C" NOT NULL,

    CONSTRAINT "Conversation_pkey" PRIMARY KEY ("key")
);

-- CreateIndex
CREATE INDEX "Conversation_spaceId_idx" ON "Conversation"("spaceId");

-- AddForeignKey
ALTER TABLE "Conversation" ADD CONSTRAINT "Conversation_spaceId_fkey" FOREIGN KEY ("spaceId") REFERENCES "Space"("id") ON DELETE CASCADE ON UPDATE CASCADE;
