-- AlterTable
ALTER TABLE "Entity" ADD COLUMN     "picture" TEXT;
