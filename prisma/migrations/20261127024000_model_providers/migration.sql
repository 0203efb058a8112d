-- CreateTable
CREATE TABLE "ModelProvider" (
    "name" TEXT NOT NULL,
    "api" TEXT NOT NULL,
    "baseUrl" TEXT,
    "keySealed" TEXT,
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "ModelProvider_pkey" PRIMARY KEY ("name")
);
