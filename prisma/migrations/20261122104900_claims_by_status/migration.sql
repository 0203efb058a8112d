-- Runs that go on come before those that are new, however many of these there are: each status is looked at by itself.
DROP INDEX "Run_claimableAt_idx";

-- CreateIndex
CREATE INDEX "Run_status_claimableAt_idx" ON "Run"("status", "claimableAt") WHERE "claimableAt" IS NOT NULL;
