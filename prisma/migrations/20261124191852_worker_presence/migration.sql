-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "worker" INTEGER;
