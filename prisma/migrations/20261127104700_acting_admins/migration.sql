-- AlterTable
ALTER TABLE "Session" ADD COLUMN     "acting" BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN     "actingAdminId" TEXT COLLATE "C";

-- CreateIndex
CREATE INDEX "Session_actingAdminId" ON "Session"("actingAdminId") WHERE "actingAdminId" IS NOT NULL;

-- AlterTable
ALTER TABLE "AccessToken" ADD COLUMN     "createdById" TEXT COLLATE "C";

-- CreateIndex
CREATE INDEX "AccessToken_createdById" ON "AccessToken"("createdById") WHERE "createdById" IS NOT NULL;

-- AlterTable
ALTER TABLE "Message" ADD COLUMN     "actingAdminId" TEXT COLLATE "C";
