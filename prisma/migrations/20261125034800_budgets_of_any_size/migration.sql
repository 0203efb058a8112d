-- What is spent is divided, where the limit was multiplied: one past 1e299 USD was out of range, and nobody could write where it held.
CREATE OR REPLACE FUNCTION "budgetState"(agent TEXT, space TEXT, root TEXT) RETURNS JSONB LANGUAGE plpgsql STABLE AS $$
DECLARE
  own JSONB;
  places JSONB;
  most_tokens FLOAT8;
  most_usd FLOAT8;
  tokens FLOAT8;
  nanos FLOAT8;
  whose TEXT;
  in_usd BOOLEAN;
  today DATE := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a."budget" IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s."budget" IS NOT NULL) THEN RETURN NULL; END IF;
  SELECT a."budget" INTO own FROM "Agent" a WHERE a."id" = agent;
  SELECT s."budget" INTO places FROM "Space" s WHERE s."id" = space;
  SELECT min((b.budget->>'tokensPerRoot')::float8), min((b.budget->>'usdPerRoot')::float8) INTO most_tokens, most_usd FROM (
    SELECT a."budget" AS budget FROM "Agent" a WHERE a."budget" IS NOT NULL AND (a."id" = agent OR EXISTS (
      SELECT 1 FROM "Run" r WHERE r."rootId" = root AND r."agentId" = a."id"))
    UNION ALL
    SELECT s."budget" FROM "Message" m JOIN "Space" s ON s."id" = m."spaceId" WHERE m."id" = root AND s."budget" IS NOT NULL
  ) b;
  in_usd := most_usd IS NOT NULL OR coalesce(own->'usdPerDay', places->'usdPerDay') IS NOT NULL;
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
  IF own IS NULL AND places IS NULL AND most_tokens IS NULL AND most_usd IS NULL THEN RETURN NULL; END IF;
  RETURN jsonb_build_object('over', whose, 'inUsd', in_usd);
END $$;
