-- AlterTable
ALTER TABLE "AgentTool" ADD COLUMN     "mayReceiveConfidential" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "Chain" ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "Cycle" ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "Goal" ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "InboxEvent" ADD COLUMN     "askers" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "McpServer" ADD COLUMN     "confidentialTools" JSONB,
ADD COLUMN     "mayReceiveConfidential" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "Memory" ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "Message" ADD COLUMN     "askers" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "Plan" ADD COLUMN     "askers" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "askers" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "Space" ADD COLUMN     "confidential" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "Step" ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "withheld" JSONB;

-- AlterTable
ALTER TABLE "ToolCall" ADD COLUMN     "label" TEXT[] DEFAULT ARRAY[]::TEXT[],
ADD COLUMN     "places" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- Where what is there already comes from, as far as its row says.
UPDATE "Run" SET "places" = ARRAY["triggerSpaceId"] WHERE "triggerSpaceId" IS NOT NULL;
UPDATE "InboxEvent" SET "places" = ARRAY["spaceId"] WHERE "spaceId" IS NOT NULL;
UPDATE "Cycle" c SET "places" = e."places" FROM (
  SELECT "runId", array_agg(DISTINCT "spaceId") AS "places" FROM "InboxEvent" WHERE "spaceId" IS NOT NULL AND "runId" IS NOT NULL GROUP BY "runId"
) e WHERE e."runId" = c."runId";

-- Those few that are confidential are found without looking at the others.
CREATE INDEX "Space_confidential_idx" ON "Space"("id") WHERE "confidential";

DROP TRIGGER "Space_settings" ON "Space";
CREATE TRIGGER "Space_settings" BEFORE UPDATE OF name, routing, "adminAgentId", "lastPickedId", "lastPickedJoinedAt", "deletedAt", confidential ON "Space"
  FOR EACH ROW EXECUTE FUNCTION "raiseSpaceVersion"();
