-- What the outcome keeps of a skipped think cycle, which leaves no run. Of earlier ones the marks are unknown: only admins see
-- their reasons.
ALTER TABLE "Outcome" ADD COLUMN "label" TEXT[] NOT NULL DEFAULT ARRAY[]::TEXT[],
  ADD COLUMN "readingSince" TIMESTAMPTZ(3),
  ADD COLUMN "readAt" TIMESTAMPTZ(3);
