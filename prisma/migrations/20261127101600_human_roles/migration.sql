-- CreateEnum
CREATE TYPE "HumanRole" AS ENUM ('ADMIN', 'MEMBER');

-- AlterTable
ALTER TABLE "Entity" ADD COLUMN     "role" "HumanRole" NOT NULL DEFAULT 'MEMBER';

-- CreateIndex
CREATE INDEX "Entity_admins" ON "Entity"("id") WHERE "role" = 'ADMIN';
