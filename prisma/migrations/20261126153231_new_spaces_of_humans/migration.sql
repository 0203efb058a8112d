-- CreateTable
CREATE TABLE "SpaceCreator" (
    "humanId" TEXT NOT NULL,
    "createdAt" TIMESTAMPTZ(3)[],

    CONSTRAINT "SpaceCreator_pkey" PRIMARY KEY ("humanId")
);

-- AddForeignKey
ALTER TABLE "SpaceCreator" ADD CONSTRAINT "SpaceCreator_humanId_fkey" FOREIGN KEY ("humanId") REFERENCES "Entity"("id") ON DELETE CASCADE ON UPDATE CASCADE;
