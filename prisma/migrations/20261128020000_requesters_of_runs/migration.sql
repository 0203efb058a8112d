-- A worker looks at the oldest claimable runs of each requester and agent, so that many runs of one requester hide nobody else's.
ALTER TABLE "Run" ADD COLUMN "requesterId" TEXT COLLATE "C" NOT NULL DEFAULT '';

UPDATE "Run" SET "requesterId" =
  coalesce(CASE WHEN cardinality(askers) = 1 THEN askers[1] END, "triggerServiceId", "agentId")
WHERE status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL');

CREATE INDEX "Run_claimable" ON "Run"("requesterId", "agentId", "status", "claimableAt") WHERE "claimableAt" IS NOT NULL;
