-- CreateTable
CREATE TABLE "FormerMember" (
    "spaceId" TEXT NOT NULL,
    "entityId" TEXT NOT NULL,

    CONSTRAINT "FormerMember_pkey" PRIMARY KEY ("spaceId","entityId")
);

-- CreateIndex
CREATE INDEX "FormerMember_entityId_idx" ON "FormerMember"("entityId");

-- AddForeignKey
ALTER TABLE "FormerMember" ADD CONSTRAINT "FormerMember_spaceId_fkey" FOREIGN KEY ("spaceId") REFERENCES "Space"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "FormerMember" ADD CONSTRAINT "FormerMember_entityId_fkey" FOREIGN KEY ("entityId") REFERENCES "Entity"("id") ON DELETE CASCADE ON UPDATE CASCADE;
