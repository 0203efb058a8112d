-- AlterTable
ALTER TABLE "Agent" ADD COLUMN     "fallbackModels" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "modelSettings" JSONB;

-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "cachedInputTokens" INTEGER NOT NULL DEFAULT 0;

-- AlterTable
ALTER TABLE "Step" ADD COLUMN     "cachedInputTokens" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "failedModels" JSONB NOT NULL DEFAULT '[]';

-- CreateTable
CREATE TABLE "ModelProviderHealth" (
    "provider" TEXT NOT NULL,
    "failedAt" TIMESTAMPTZ(3)[],
    "restsUntil" TIMESTAMPTZ(3),

    CONSTRAINT "ModelProviderHealth_pkey" PRIMARY KEY ("provider")
);
