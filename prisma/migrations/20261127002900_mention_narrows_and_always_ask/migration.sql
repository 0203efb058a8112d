-- AlterTable
ALTER TABLE "AgentTool" ADD COLUMN     "alwaysAsk" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "McpServer" ADD COLUMN     "alwaysAskTools" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "Space" ADD COLUMN     "mentionNarrows" BOOLEAN NOT NULL DEFAULT false;

-- Routing decides on the new setting, so a change of it raises the version.
DROP TRIGGER "Space_settings" ON "Space";
CREATE TRIGGER "Space_settings" BEFORE UPDATE OF name, routing, "adminAgentId", "lastPickedId", "lastPickedJoinedAt", "deletedAt", confidential, "mentionNarrows" ON "Space"
  FOR EACH ROW EXECUTE FUNCTION "raiseSpaceVersion"();
