-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "costNanos" DOUBLE PRECISION,
ADD COLUMN     "deepestSpaceId" TEXT,
ADD COLUMN     "usageDay" DATE,
ADD COLUMN     "usageModel" TEXT,
ADD COLUMN     "usageSpaceId" TEXT;

-- AlterTable
ALTER TABLE "Step" ADD COLUMN     "costNanos" DOUBLE PRECISION;

-- CreateTable
CREATE TABLE "DailyUsage" (
    "day" DATE NOT NULL,
    "agentId" TEXT NOT NULL,
    "spaceId" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "runs" INTEGER NOT NULL DEFAULT 0,
    "skippedCycles" INTEGER NOT NULL DEFAULT 0,
    "inputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "cachedInputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "outputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "costNanos" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "isUnpriced" BOOLEAN NOT NULL DEFAULT false,

    CONSTRAINT "DailyUsage_pkey" PRIMARY KEY ("day","agentId","spaceId","model")
);

-- CreateTable
CREATE TABLE "RootUsage" (
    "rootId" TEXT NOT NULL,
    "inputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "cachedInputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "outputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "costNanos" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "isUnpriced" BOOLEAN NOT NULL DEFAULT false,
    "isEstimated" BOOLEAN NOT NULL DEFAULT false,
    "tellAt" TIMESTAMPTZ(3),

    CONSTRAINT "RootUsage_pkey" PRIMARY KEY ("rootId")
);

-- CreateIndex
CREATE INDEX "DailyUsage_spaceId_day_idx" ON "DailyUsage"("spaceId", "day");

-- CreateIndex
CREATE INDEX "RootUsage_tellAt_idx" ON "RootUsage"("tellAt") WHERE "tellAt" IS NOT NULL;

-- What ran before was not priced, but for what costs nothing: the cost of a run that has used something is not known.
UPDATE "Step" SET "costNanos" = 0 WHERE "model" = 'demo';
UPDATE "Run" r SET "costNanos" = CASE WHEN r."inputTokens" = 0 AND r."outputTokens" = 0
    OR (EXISTS (SELECT 1 FROM "Step" s WHERE s."runId" = r."id") AND NOT EXISTS (
      SELECT 1 FROM "Step" s WHERE s."runId" = r."id" AND s."model" <> 'demo')) THEN 0 END,
  "usageDay" = CASE WHEN r."inputTokens" + r."outputTokens" > 0 THEN (coalesce(r."startedAt", r."queuedAt") AT TIME ZONE 'UTC')::date END,
  "usageSpaceId" = coalesce(r."triggerSpaceId", ''),
  "usageModel" = coalesce(
    (SELECT s."model" FROM "Step" s WHERE s."runId" = r."id" ORDER BY s."index" LIMIT 1),
    (SELECT a."model" FROM "Agent" a WHERE a."id" = r."agentId"), '');
ALTER TABLE "Run" ALTER COLUMN "costNanos" SET DEFAULT 0;

-- The ledger begins with what the runs say that there are.
INSERT INTO "DailyUsage" ("day", "agentId", "spaceId", "model", "runs", "inputTokens", "cachedInputTokens", "outputTokens", "costNanos", "isUnpriced")
SELECT "usageDay", "agentId", "usageSpaceId", "usageModel", count(*), sum("inputTokens"), sum("cachedInputTokens"), sum("outputTokens"),
  coalesce(sum("costNanos"), 0), bool_or("costNanos" IS NULL)
FROM "Run" WHERE "usageDay" IS NOT NULL GROUP BY 1, 2, 3, 4;

INSERT INTO "RootUsage" ("rootId", "inputTokens", "cachedInputTokens", "outputTokens", "costNanos", "isUnpriced", "isEstimated")
SELECT "rootId", sum("inputTokens"), sum("cachedInputTokens"), sum("outputTokens"), coalesce(sum("costNanos"), 0),
  bool_or("costNanos" IS NULL), bool_or("usageEstimated")
FROM "Run" WHERE "usageDay" IS NOT NULL GROUP BY 1;
