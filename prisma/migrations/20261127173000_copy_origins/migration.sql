-- What each copied agent, copied space and repeated run's root was copied from. Outlives all of them, so that copies of copies stay
-- related when the ones in between are deleted. Null as owner: the operator.
CREATE TABLE "CopyOrigin" (
    "copyId" TEXT COLLATE "C" NOT NULL,
    "fromId" TEXT COLLATE "C" NOT NULL,
    "originId" TEXT COLLATE "C" NOT NULL,
    "ownerId" TEXT COLLATE "C",

    CONSTRAINT "CopyOrigin_pkey" PRIMARY KEY ("copyId")
);
CREATE INDEX "CopyOrigin_fromId_idx" ON "CopyOrigin"("fromId");
CREATE INDEX "CopyOrigin_originId_idx" ON "CopyOrigin"("originId");

INSERT INTO "CopyOrigin" ("copyId", "fromId", "originId", "ownerId")
WITH RECURSIVE made AS (
  SELECT a.id, a."copyOfId" AS "fromId", (
    SELECT s."creatorId" FROM "Membership" m JOIN "Space" s ON s.id = m."spaceId"
    WHERE m."entityId" = a.id AND a.id = "copiedId"(a."copyOfId", s.id)) AS "ownerId"
  FROM "Agent" a WHERE a."copyOfId" IS NOT NULL
  UNION ALL SELECT id, "forkOfId", "creatorId" FROM "Space" WHERE "forkOfId" IS NOT NULL
), chain AS (
  SELECT id, "fromId" AS "originId" FROM made
  UNION ALL SELECT c.id, m."fromId" FROM chain c JOIN made m ON m.id = c."originId"
) SELECT c.id, own."fromId", c."originId", own."ownerId" FROM chain c JOIN made own ON own.id = c.id
WHERE NOT EXISTS (SELECT 1 FROM made m WHERE m.id = c."originId");

-- The first original of an agent, space or root, followed by all copies of it, living or deleted.
CREATE FUNCTION "copyFamily"(member TEXT) RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
  origin TEXT;
BEGIN
  IF member IS NULL THEN RETURN NULL; END IF;
  SELECT o."originId" INTO origin FROM "CopyOrigin" o WHERE o."copyId" = member;
  origin := coalesce(origin, member);
  RETURN ARRAY[origin] || ARRAY(SELECT o."copyId" FROM "CopyOrigin" o WHERE o."originId" = origin ORDER BY 1);
END $$;

-- Those whose usage counts for an agent or a space: the first original, the copies that the operator or members of the original have
-- made, the member itself, and the other copies of its owner. A member of an agent shares a space with it. So somebody who was
-- removed cannot exhaust the budget of the original, or of the others' copies.
CREATE FUNCTION "budgetFamily"(member TEXT) RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
  origin TEXT;
  owner TEXT;
BEGIN
  IF member IS NULL THEN RETURN NULL; END IF;
  SELECT o."originId", o."ownerId" INTO origin, owner FROM "CopyOrigin" o WHERE o."copyId" = member;
  origin := coalesce(origin, member);
  RETURN ARRAY[origin] || ARRAY(
    SELECT o."copyId" FROM "CopyOrigin" o WHERE o."originId" = origin AND (
      o."copyId" = member OR o."ownerId" IS NULL OR o."ownerId" = owner OR o."ownerId" IN (
        SELECT m."entityId" FROM "Membership" m WHERE m."spaceId" = origin
        UNION SELECT m."entityId" FROM "Membership" own JOIN "Membership" m ON m."spaceId" = own."spaceId" WHERE own."entityId" = origin))
    ORDER BY 1);
END $$;

-- As before, but copies share the budgets of their originals: usage of the original and of its copies (`budgetFamily`) counts together,
-- against the lower limit of the original and the copy.
CREATE OR REPLACE FUNCTION "budgetState"(agent TEXT, space TEXT, root TEXT, human TEXT, askers TEXT[]) RETURNS JSONB LANGUAGE plpgsql STABLE AS $$
DECLARE
  person TEXT;
  agents TEXT[];
  spaces TEXT[];
  roots TEXT[];
  budget RECORD;
  has_any BOOLEAN := false;
  tokens FLOAT8;
  nanos FLOAT8;
  whose TEXT;
  in_usd BOOLEAN := false;
  humans_have BOOLEAN := EXISTS (SELECT 1 FROM "Entity" e WHERE e."budget" IS NOT NULL);
  today DATE := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  IF NOT humans_have AND NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a."budget" IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s."budget" IS NOT NULL) THEN RETURN NULL; END IF;
  IF humans_have THEN person := coalesce(human, "rootHuman"(root, askers)); END IF;
  agents := "budgetFamily"(agent);
  spaces := "budgetFamily"(space);
  roots := "copyFamily"(root);
  FOR budget IN SELECT * FROM "budgetLimits"(agent, space, person, agents, spaces, roots) LOOP
    CONTINUE WHEN NOT budget.applies;
    has_any := true;
    in_usd := in_usd OR budget.usd IS NOT NULL;
    CONTINUE WHEN whose IS NOT NULL OR (budget.tokens IS NULL AND budget.usd IS NULL);
    SELECT s.tokens, s.nanos INTO tokens, nanos FROM "budgetSpent"(budget.whose, person, agents, spaces, roots, today) s;
    IF tokens >= budget.tokens OR nanos / 1e9 >= budget.usd THEN whose := budget.whose; END IF;
  END LOOP;
  IF NOT has_any THEN RETURN NULL; END IF;
  RETURN jsonb_build_object('over', whose, 'inUsd', in_usd);
END $$;

-- The limits that apply to a generation, for ROOT, AGENT, SPACE and HUMAN. `applies`: there is a budget, perhaps without this limit.
CREATE FUNCTION "budgetLimits"(agent TEXT, space TEXT, person TEXT, agents TEXT[], spaces TEXT[], roots TEXT[])
RETURNS TABLE (whose TEXT, tokens FLOAT8, usd FLOAT8, applies BOOLEAN) LANGUAGE sql STABLE AS $$
  SELECT 'ROOT', min((b.budget->>'tokensPerRoot')::float8), min((b.budget->>'usdPerRoot')::float8),
    bool_or(b.budget ? 'tokensPerRoot' OR b.budget ? 'usdPerRoot') IS TRUE FROM (
    SELECT a."budget" AS budget FROM "Agent" a WHERE a."budget" IS NOT NULL AND (a."id" IN (agent, agents[1]) OR EXISTS (
      SELECT 1 FROM "Run" r WHERE r."rootId" = ANY(roots) AND r."agentId" = a."id"))
    UNION ALL
    SELECT s."budget" FROM "Message" m JOIN "Space" s ON s."id" IN (m."spaceId", ("copyFamily"(m."spaceId"))[1])
    WHERE m."id" = ANY(roots) AND s."budget" IS NOT NULL
    UNION ALL
    SELECT e."budget" FROM "Entity" e WHERE e."id" = person AND e."budget" IS NOT NULL
  ) b
  UNION ALL
  SELECT 'AGENT', min((a."budget"->>'tokensPerDay')::float8), min((a."budget"->>'usdPerDay')::float8), count(*) > 0
  FROM "Agent" a WHERE a."id" IN (agent, agents[1]) AND a."budget" IS NOT NULL
  UNION ALL
  SELECT 'SPACE', min((s."budget"->>'tokensPerDay')::float8), min((s."budget"->>'usdPerDay')::float8), count(*) > 0
  FROM "Space" s WHERE s."id" IN (space, spaces[1]) AND s."budget" IS NOT NULL
  UNION ALL
  SELECT 'HUMAN', (e."budget"->>'tokensPerDay')::float8, (e."budget"->>'usdPerDay')::float8, true
  FROM "Entity" e WHERE e."id" = person AND e."budget" IS NOT NULL
$$;

-- What counts against such a limit so far.
CREATE FUNCTION "budgetSpent"(whose TEXT, person TEXT, agents TEXT[], spaces TEXT[], roots TEXT[], today DATE)
RETURNS TABLE (tokens FLOAT8, nanos FLOAT8) LANGUAGE plpgsql STABLE AS $$
BEGIN
  CASE whose
    WHEN 'ROOT' THEN RETURN QUERY SELECT coalesce(sum(u."inputTokens" + u."outputTokens"), 0), coalesce(sum(u."costNanos"), 0)
      FROM "RootUsage" u WHERE u."rootId" = ANY(roots);
    WHEN 'AGENT' THEN RETURN QUERY SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0), coalesce(sum(d."costNanos"), 0)
      FROM "DailyUsage" d WHERE d."day" = today AND d."agentId" = ANY(agents);
    WHEN 'SPACE' THEN RETURN QUERY SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0), coalesce(sum(d."costNanos"), 0)
      FROM "DailyUsage" d WHERE d."day" = today AND d."spaceId" = ANY(spaces);
    ELSE RETURN QUERY SELECT coalesce(sum(d."inputTokens" + d."outputTokens"), 0), coalesce(sum(d."costNanos"), 0)
      FROM "HumanUsage" d WHERE d."day" = today AND d."humanId" = person;
  END CASE;
END $$;

CREATE OR REPLACE FUNCTION "reserveBudget"(run TEXT, of_attempt INT, more_tokens FLOAT8, more_nanos FLOAT8)
RETURNS JSONB LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  agent TEXT;
  space TEXT;
  root TEXT;
  askers TEXT[];
  person TEXT;
  agents TEXT[];
  spaces TEXT[];
  roots TEXT[];
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
  agents := "budgetFamily"(agent);
  spaces := "budgetFamily"(space);
  roots := "copyFamily"(root);
  FOR lock_key IN SELECT k FROM unnest(ARRAY[agents[1], spaces[1], roots[1], person]) AS k WHERE k IS NOT NULL ORDER BY k LOOP
    PERFORM pg_advisory_xact_lock(hashtextextended(lock_key, 1));
  END LOOP;
  FOR budget IN SELECT * FROM "budgetLimits"(agent, space, person, agents, spaces, roots) LOOP
    CONTINUE WHEN budget.tokens IS NULL AND budget.usd IS NULL;
    SELECT s.tokens, s.nanos INTO spent FROM "budgetSpent"(budget.whose, person, agents, spaces, roots, today) s;
    SELECT count(*) AS runs, coalesce(sum(r."reservedTokens"), 0) AS tokens, coalesce(sum(r."reservedNanos"), 0) AS nanos INTO others
    FROM "Run" r WHERE r."status" = 'RUNNING' AND r."reservedTokens" > 0 AND r."id" <> run AND r."leaseUntil" > clock_timestamp()
      AND CASE budget.whose WHEN 'ROOT' THEN r."rootId" = ANY(roots) WHEN 'AGENT' THEN r."agentId" = ANY(agents)
        WHEN 'SPACE' THEN coalesce(r."deepestSpaceId", r."triggerSpaceId") = ANY(spaces) ELSE r."reservedForId" = person END;
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

-- A copy of a deleted message refers to the texts of the original's deletion, and has only those of its own that differ. A deletion
-- that is done stays while others refer to it.
ALTER TABLE "MessageDeletion" ADD COLUMN "textsOfId" TEXT COLLATE "C", ADD COLUMN "isDone" BOOLEAN NOT NULL DEFAULT false;
CREATE INDEX "MessageDeletion_textsOfId_idx" ON "MessageDeletion"("textsOfId");
