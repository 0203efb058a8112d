-- AlterTable
ALTER TABLE "Message" ADD COLUMN     "mentionedIds" TEXT[] COLLATE "C" DEFAULT ARRAY[]::TEXT[];
