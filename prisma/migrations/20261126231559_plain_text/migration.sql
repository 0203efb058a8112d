-- CreateEnum
CREATE TYPE "PlainText" AS ENUM ('INTERNAL', 'SPOKEN_IF_SILENT');

-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "plainText" "PlainText" NOT NULL DEFAULT 'INTERNAL';

-- AlterTable
ALTER TABLE "Message" ADD COLUMN     "fromPlainText" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "fault" TEXT;
