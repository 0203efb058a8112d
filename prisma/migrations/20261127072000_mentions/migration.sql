-- AlterTable
ALTER TABLE "Message" ADD COLUMN     "mentionedIds" TEXT[] COLLATE "C" DEFAULT ARRAY[]::TEXT[];

-- For counting unread mentions; other messages have no entry.
CREATE INDEX "Message_mentionedIds" ON "Message" USING GIN ("mentionedIds") WHERE "mentionedIds" <> '{}';
