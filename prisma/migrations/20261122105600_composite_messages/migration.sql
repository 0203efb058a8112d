-- AlterTable
ALTER TABLE "Message" ADD COLUMN     "composite" BOOLEAN NOT NULL DEFAULT false;

-- What the key has said until now.
UPDATE "Message" SET "composite" = true WHERE "runPostKey" LIKE "spaceId" || ':%';
