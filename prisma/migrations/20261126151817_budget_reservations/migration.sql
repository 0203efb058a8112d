-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "reservedNanos" DOUBLE PRECISION NOT NULL DEFAULT 0,
ADD COLUMN     "reservedTokens" DOUBLE PRECISION NOT NULL DEFAULT 0;

-- Reserves what a run's next generation may use (src/platform/budget-state.ts). Null: the run is not this attempt's any more. Else one of
-- `over` (AGENT, SPACE or ROOT, whose budget is spent), `waitsFor` (whose budget would be exceeded together with what others have reserved) and
-- `reserved`. With nobody else's reservation a generation is let through while anything is left, whatever it may use. Counted are
-- reservations of runs whose worker lives. Volatile: each statement sees what was committed before its lock was had.
CREATE FUNCTION "reserveBudget"(run TEXT, of_attempt INT, more_tokens FLOAT8, more_nanos FLOAT8)
RETURNS JSONB LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  agent TEXT;
  space TEXT;
  root TEXT;
  lock_key TEXT;
  budget RECORD;
  spent RECORD;
  others RECORD;
  waits_for TEXT;
  today DATE := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  SELECT r."agentId", coalesce(r."deepestSpaceId", r."triggerSpaceId"), r."rootId" INTO agent, space, root
  FROM "Run" r WHERE r."id" = run AND r."attempt" = of_attempt AND r."status" = 'RUNNING';
  IF agent IS NULL THEN RETURN NULL; END IF;
  FOR lock_key IN SELECT k FROM unnest(ARRAY[agent, space, root]) AS k WHERE k IS NOT NULL ORDER BY k LOOP
    PERFORM pg_advisory_xact_lock(hashtextextended(lock_key, 1));
  END LOOP;
  FOR budget IN
    SELECT 'ROOT' AS whose, min((b.budget->>'tokensPerRoot')::float8) AS tokens, min((b.budget->>'usdPerRoot')::float8) AS usd FROM (
      SELECT a."budget" AS budget FROM "Agent" a WHERE a."budget" IS NOT NULL AND (a."id" = agent OR EXISTS (
        SELECT 1 FROM "Run" r WHERE r."rootId" = root AND r."agentId" = a."id"))
      UNION ALL
      SELECT s."budget" FROM "Message" m JOIN "Space" s ON s."id" = m."spaceId" WHERE m."id" = root AND s."budget" IS NOT NULL
    ) b
    UNION ALL
    SELECT 'AGENT', (a."budget"->>'tokensPerDay')::float8, (a."budget"->>'usdPerDay')::float8 FROM "Agent" a WHERE a."id" = agent
    UNION ALL
    SELECT 'SPACE', (s."budget"->>'tokensPerDay')::float8, (s."budget"->>'usdPerDay')::float8 FROM "Space" s WHERE s."id" = space
  LOOP
    CONTINUE WHEN budget.tokens IS NULL AND budget.usd IS NULL;
    IF budget.whose = 'ROOT' THEN
      SELECT coalesce(sum(u."inputTokens" + u."outputTokens"), 0) AS tokens, coalesce(sum(u."costNanos"), 0) AS nanos INTO spent
      FROM "RootUsage" u WHERE u."rootId" = root;
      SELECT count(*) AS runs, coalesce(sum(r."reservedTokens"), 0) AS tokens, coalesce(sum(r."reservedNanos"), 0) AS nanos INTO others
      FROM "Run" r WHERE r."rootId" = root AND r."status" = 'RUNNING' AND r."reservedTokens" > 0 AND r."id" <> run
        AND r."leaseUntil" > clock_timestamp();
    ELSIF budget.whose = 'AGENT' THEN
      SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0) AS tokens, coalesce(sum(d."costNanos"), 0) AS nanos INTO spent
      FROM "DailyUsage" d WHERE d."day" = today AND d."agentId" = agent;
      SELECT count(*) AS runs, coalesce(sum(r."reservedTokens"), 0) AS tokens, coalesce(sum(r."reservedNanos"), 0) AS nanos INTO others
      FROM "Run" r WHERE r."agentId" = agent AND r."status" = 'RUNNING' AND r."reservedTokens" > 0 AND r."id" <> run
        AND r."leaseUntil" > clock_timestamp();
    ELSE
      SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0) AS tokens, coalesce(sum(d."costNanos"), 0) AS nanos INTO spent
      FROM "DailyUsage" d WHERE d."day" = today AND d."spaceId" = space;
      SELECT count(*) AS runs, coalesce(sum(r."reservedTokens"), 0) AS tokens, coalesce(sum(r."reservedNanos"), 0) AS nanos INTO others
      FROM "Run" r WHERE coalesce(r."deepestSpaceId", r."triggerSpaceId") = space AND r."status" = 'RUNNING' AND r."reservedTokens" > 0
        AND r."id" <> run AND r."leaseUntil" > clock_timestamp();
    END IF;
    IF spent.tokens >= budget.tokens OR spent.nanos / 1e9 >= budget.usd THEN
      RETURN jsonb_build_object('over', budget.whose);
    END IF;
    IF others.runs > 0 AND (spent.tokens + others.tokens + more_tokens > budget.tokens
      OR (spent.nanos + others.nanos + more_nanos) / 1e9 > budget.usd) THEN
      waits_for := coalesce(waits_for, budget.whose);
    END IF;
  END LOOP;
  -- Whoever waits holds nothing, so that no two wait for each other.
  UPDATE "Run" r SET "reservedTokens" = CASE WHEN waits_for IS NULL THEN more_tokens ELSE 0 END,
    "reservedNanos" = CASE WHEN waits_for IS NULL THEN more_nanos ELSE 0 END
  WHERE r."id" = run AND r."attempt" = of_attempt AND r."status" = 'RUNNING';
  RETURN CASE WHEN waits_for IS NULL THEN jsonb_build_object('reserved', true) ELSE jsonb_build_object('waitsFor', waits_for) END;
END $$;
