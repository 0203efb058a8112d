-- AlterTable
ALTER TABLE "Entity" ADD COLUMN "email" TEXT COLLATE "C";

-- An address names one human, without regard to case.
CREATE UNIQUE INDEX "Entity_email_key" ON "Entity" (lower("email"));

-- CreateTable
CREATE TABLE "Mail" (
    "key" TEXT COLLATE "C" NOT NULL,
    "createdAt" TIMESTAMPTZ(3) NOT NULL,
    "startedAt" TIMESTAMPTZ(3),
    "sentAt" TIMESTAMPTZ(3),

    CONSTRAINT "Mail_pkey" PRIMARY KEY ("key")
);

-- CreateIndex
CREATE INDEX "Mail_createdAt_idx" ON "Mail"("createdAt");
