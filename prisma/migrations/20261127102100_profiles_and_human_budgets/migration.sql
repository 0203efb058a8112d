-- AlterTable
ALTER TABLE "Entity" ADD COLUMN     "budget" JSONB,
ADD COLUMN     "sharePresence" BOOLEAN NOT NULL DEFAULT true,
ADD COLUMN     "timeZone" TEXT;

-- AlterTable
ALTER TABLE "Run" ADD COLUMN     "reservedForId" TEXT COLLATE "C",
ADD COLUMN     "usageHumanId" TEXT COLLATE "C";

-- CreateTable
CREATE TABLE "HumanUsage" (
    "day" DATE NOT NULL,
    "humanId" TEXT COLLATE "C" NOT NULL,
    "agentId" TEXT COLLATE "C" NOT NULL,
    "spaceId" TEXT COLLATE "C" NOT NULL,
    "model" TEXT NOT NULL,
    "runs" INTEGER NOT NULL DEFAULT 0,
    "skippedCycles" INTEGER NOT NULL DEFAULT 0,
    "inputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "cachedInputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "outputTokens" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "costNanos" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "isUnpriced" BOOLEAN NOT NULL DEFAULT false,

    CONSTRAINT "HumanUsage_pkey" PRIMARY KEY ("day","humanId","agentId","spaceId","model")
);

-- The few humans with a budget are found without reading the others.
CREATE INDEX "Entity_budget_idx" ON "Entity"("id") WHERE "budget" IS NOT NULL;

-- The human at the root of usage: the sender of the root message, or of the message under which an agent made the plan that fired.
-- If that message is gone: the only requester of the run. Null: nobody, as for plans of admins and calls of services.
CREATE FUNCTION "rootHuman"(root TEXT, askers TEXT[]) RETURNS TEXT LANGUAGE sql STABLE AS $$
  SELECT coalesce(
    (SELECT m."senderId" FROM "Message" m WHERE m."id" = root AND starts_with(m."senderId", 'hum_')),
    (SELECT m."senderId" FROM "PlanFiring" f JOIN "Message" m ON m."id" = f."originId"
      WHERE f."rootId" = root AND starts_with(m."senderId", 'hum_')),
    CASE WHEN cardinality(askers) = 1 THEN askers[1] END)
$$;

-- As "budgetState"(agent, space, root), which processes of the former version call, and with the budget of the human at the root: `human`,
-- if the root has no row yet, else the one of "rootHuman". `over` may also be HUMAN.
CREATE FUNCTION "budgetState"(agent TEXT, space TEXT, root TEXT, human TEXT, askers TEXT[]) RETURNS JSONB LANGUAGE plpgsql STABLE AS $$
DECLARE
  person TEXT;
  own JSONB;
  places JSONB;
  persons JSONB;
  most_tokens FLOAT8;
  most_usd FLOAT8;
  tokens FLOAT8;
  nanos FLOAT8;
  whose TEXT;
  in_usd BOOLEAN;
  humans_have BOOLEAN := EXISTS (SELECT 1 FROM "Entity" e WHERE e."budget" IS NOT NULL);
  today DATE := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  IF NOT humans_have AND NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a."budget" IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s."budget" IS NOT NULL) THEN RETURN NULL; END IF;
  IF humans_have THEN
    person := coalesce(human, "rootHuman"(root, askers));
    SELECT e."budget" INTO persons FROM "Entity" e WHERE e."id" = person;
  END IF;
  SELECT a."budget" INTO own FROM "Agent" a WHERE a."id" = agent;
  SELECT s."budget" INTO places FROM "Space" s WHERE s."id" = space;
  SELECT min((b.budget->>'tokensPerRoot')::float8), min((b.budget->>'usdPerRoot')::float8) INTO most_tokens, most_usd FROM (
    SELECT a."budget" AS budget FROM "Agent" a WHERE a."budget" IS NOT NULL AND (a."id" = agent OR EXISTS (
      SELECT 1 FROM "Run" r WHERE r."rootId" = root AND r."agentId" = a."id"))
    UNION ALL
    SELECT s."budget" FROM "Message" m JOIN "Space" s ON s."id" = m."spaceId" WHERE m."id" = root AND s."budget" IS NOT NULL
    UNION ALL
    SELECT persons WHERE persons IS NOT NULL
  ) b;
  in_usd := most_usd IS NOT NULL OR coalesce(own->'usdPerDay', places->'usdPerDay', persons->'usdPerDay') IS NOT NULL;
  IF most_tokens IS NOT NULL OR most_usd IS NOT NULL THEN
    SELECT coalesce(sum(u."inputTokens" + u."outputTokens"), 0), coalesce(sum(u."costNanos"), 0) INTO tokens, nanos
    FROM "RootUsage" u WHERE u."rootId" = root;
    IF tokens >= most_tokens OR nanos / 1e9 >= most_usd THEN whose := 'ROOT'; END IF;
  END IF;
  IF whose IS NULL AND (own ? 'tokensPerDay' OR own ? 'usdPerDay') THEN
    SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0), coalesce(sum(d."costNanos"), 0) INTO tokens, nanos
    FROM "DailyUsage" d WHERE d."day" = today AND d."agentId" = agent;
    IF tokens >= (own->>'tokensPerDay')::float8 OR nanos / 1e9 >= (own->>'usdPerDay')::float8 THEN whose := 'AGENT'; END IF;
  END IF;
  IF whose IS NULL AND (places ? 'tokensPerDay' OR places ? 'usdPerDay') THEN
    SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0), coalesce(sum(d."costNanos"), 0) INTO tokens, nanos
    FROM "DailyUsage" d WHERE d."day" = today AND d."spaceId" = space;
    IF tokens >= (places->>'tokensPerDay')::float8 OR nanos / 1e9 >= (places->>'usdPerDay')::float8 THEN whose := 'SPACE'; END IF;
  END IF;
  IF whose IS NULL AND (persons ? 'tokensPerDay' OR persons ? 'usdPerDay') THEN
    SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0), coalesce(sum(d."costNanos"), 0) INTO tokens, nanos
    FROM "HumanUsage" d WHERE d."day" = today AND d."humanId" = person;
    IF tokens >= (persons->>'tokensPerDay')::float8 OR nanos / 1e9 >= (persons->>'usdPerDay')::float8 THEN whose := 'HUMAN'; END IF;
  END IF;
  IF own IS NULL AND places IS NULL AND persons IS NULL AND most_tokens IS NULL AND most_usd IS NULL THEN RETURN NULL; END IF;
  RETURN jsonb_build_object('over', whose, 'inUsd', in_usd);
END $$;

-- Reserves what a run's next generation may use (src/platform/budget-state.ts). Null: the run no longer belongs to this attempt. Else one of
-- `over` (AGENT, SPACE, HUMAN or ROOT, whose budget is spent), `waitsFor` (whose budget would be exceeded together with what others have
-- reserved) and `reserved`. If nobody else has a reservation, a generation is let through while anything is left, whatever it may use.
-- Reservations of runs whose worker lives are counted. Volatile: each statement sees what was committed before it got its lock.
CREATE OR REPLACE FUNCTION "reserveBudget"(run TEXT, of_attempt INT, more_tokens FLOAT8, more_nanos FLOAT8)
RETURNS JSONB LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  agent TEXT;
  space TEXT;
  root TEXT;
  askers TEXT[];
  person TEXT;
  lock_key TEXT;
  budget RECORD;
  spent RECORD;
  others RECORD;
  waits_for TEXT;
  today DATE := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  SELECT r."agentId", coalesce(r."deepestSpaceId", r."triggerSpaceId"), r."rootId", r."askers" INTO agent, space, root, askers
  FROM "Run" r WHERE r."id" = run AND r."attempt" = of_attempt AND r."status" = 'RUNNING';
  IF agent IS NULL THEN RETURN NULL; END IF;
  IF EXISTS (SELECT 1 FROM "Entity" e WHERE e."budget" IS NOT NULL) THEN person := "rootHuman"(root, askers); END IF;
  FOR lock_key IN SELECT k FROM unnest(ARRAY[agent, space, root, person]) AS k WHERE k IS NOT NULL ORDER BY k LOOP
    PERFORM pg_advisory_xact_lock(hashtextextended(lock_key, 1));
  END LOOP;
  FOR budget IN
    SELECT 'ROOT' AS whose, min((b.budget->>'tokensPerRoot')::float8) AS tokens, min((b.budget->>'usdPerRoot')::float8) AS usd FROM (
      SELECT a."budget" AS budget FROM "Agent" a WHERE a."budget" IS NOT NULL AND (a."id" = agent OR EXISTS (
        SELECT 1 FROM "Run" r WHERE r."rootId" = root AND r."agentId" = a."id"))
      UNION ALL
      SELECT s."budget" FROM "Message" m JOIN "Space" s ON s."id" = m."spaceId" WHERE m."id" = root AND s."budget" IS NOT NULL
      UNION ALL
      SELECT e."budget" FROM "Entity" e WHERE e."id" = person AND e."budget" IS NOT NULL
    ) b
    UNION ALL
    SELECT 'AGENT', (a."budget"->>'tokensPerDay')::float8, (a."budget"->>'usdPerDay')::float8 FROM "Agent" a WHERE a."id" = agent
    UNION ALL
    SELECT 'SPACE', (s."budget"->>'tokensPerDay')::float8, (s."budget"->>'usdPerDay')::float8 FROM "Space" s WHERE s."id" = space
    UNION ALL
    SELECT 'HUMAN', (e."budget"->>'tokensPerDay')::float8, (e."budget"->>'usdPerDay')::float8 FROM "Entity" e WHERE e."id" = person
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
    ELSIF budget.whose = 'HUMAN' THEN
      SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0) AS tokens, coalesce(sum(d."costNanos"), 0) AS nanos INTO spent
      FROM "HumanUsage" d WHERE d."day" = today AND d."humanId" = person;
      SELECT count(*) AS runs, coalesce(sum(r."reservedTokens"), 0) AS tokens, coalesce(sum(r."reservedNanos"), 0) AS nanos INTO others
      FROM "Run" r WHERE r."reservedForId" = person AND r."status" = 'RUNNING' AND r."reservedTokens" > 0 AND r."id" <> run
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
    "reservedNanos" = CASE WHEN waits_for IS NULL THEN more_nanos ELSE 0 END, "reservedForId" = person
  WHERE r."id" = run AND r."attempt" = of_attempt AND r."status" = 'RUNNING';
  RETURN CASE WHEN waits_for IS NULL THEN jsonb_build_object('reserved', true) ELSE jsonb_build_object('waitsFor', waits_for) END;
END $$;
