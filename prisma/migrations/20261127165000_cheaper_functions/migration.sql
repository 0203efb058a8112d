-- PostgreSQL plans the body of a function in SQL at each call unless it can inline it, and the plan of one in PL/pgSQL once per
-- connection. These two are called for each step and each message.
CREATE OR REPLACE FUNCTION "rootHuman"(root TEXT, askers TEXT[]) RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
DECLARE
  sender TEXT;
BEGIN
  SELECT m."senderId" INTO sender FROM "Message" m WHERE m."id" = root AND starts_with(m."senderId", 'hum_');
  IF sender IS NOT NULL THEN RETURN sender; END IF;
  IF NOT starts_with(root, 'msg_') THEN
    SELECT m."senderId" INTO sender FROM "PlanFiring" f JOIN "Message" m ON m."id" = f."originId"
      WHERE f."rootId" = root AND starts_with(m."senderId", 'hum_');
    IF sender IS NOT NULL THEN RETURN sender; END IF;
  END IF;
  RETURN CASE WHEN cardinality(askers) = 1 THEN askers[1] END;
END $$;

-- Creates "searchFold" for the extensions that this database has.
CREATE FUNCTION "createSearchFold"() RETURNS void LANGUAGE plpgsql AS $setup$
DECLARE
  of_unaccent text;
  without_accents text;
BEGIN
  SELECT quote_ident(n.nspname) INTO of_unaccent FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'unaccent' AND has_schema_privilege(n.oid, 'USAGE');
  -- Without `unaccent` an accent is removed if the letter can be decomposed: é, but not ø.
  without_accents := CASE WHEN of_unaccent IS NULL
    THEN $sql$normalize(regexp_replace(normalize(given, NFKD), '[\u0300-\u036f]', '', 'g'), NFC)$sql$
    ELSE format($sql$%1$s.unaccent('%1$s.unaccent'::regdictionary, regexp_replace(normalize(given, NFKC), '[\u0300-\u036f]', '', 'g'))$sql$, of_unaccent) END;
  EXECUTE format($sql$
    CREATE OR REPLACE FUNCTION "searchFold"(given text) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $body$
    BEGIN
      IF octet_length(given) = length(given) THEN RETURN lower(given); END IF;
      RETURN lower(%s);
    END $body$$sql$, without_accents);
END $setup$;
SELECT "createSearchFold"();

-- As before, with "createSearchFold".
CREATE OR REPLACE FUNCTION "searchSetup"() RETURNS void LANGUAGE plpgsql AS $setup$
DECLARE
  wanted text;
  of_trigrams text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['unaccent', 'pg_trgm'] LOOP
    BEGIN
      EXECUTE format('CREATE EXTENSION IF NOT EXISTS %I', wanted);
    EXCEPTION WHEN OTHERS THEN
      RAISE NOTICE 'search does without the extension %: %', wanted, SQLERRM;
    END;
  END LOOP;
  SELECT quote_ident(n.nspname) INTO of_trigrams FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_trgm' AND has_schema_privilege(n.oid, 'USAGE');
  PERFORM "createSearchFold"();

  DROP INDEX IF EXISTS "SearchText_words_idx";
  DROP INDEX IF EXISTS "SearchText_plain_idx";
  DELETE FROM "SearchText" WHERE "fileId" = '';
  INSERT INTO "SearchText" ("messageId", "spaceId", "senderId", "at", plain, words)
    SELECT m.id, m."spaceId", m."senderId", m."createdAt", folded.text, "searchWords"(folded.text)
    FROM "Message" m, LATERAL (SELECT "searchFold"("searchTextOf"(m.parts)) AS text OFFSET 0) folded
    WHERE m.status <> 'STREAMING' AND folded.text <> '';
  PERFORM "indexFilesOf"(f."messageId") FROM (SELECT DISTINCT "messageId" FROM "File" WHERE "messageId" IS NOT NULL) f;
  CREATE INDEX "SearchText_words_idx" ON "SearchText" USING gin (words);
  IF of_trigrams IS NOT NULL THEN
    EXECUTE format('CREATE INDEX "SearchText_plain_idx" ON "SearchText" USING gin (plain %s.gin_trgm_ops)', of_trigrams);
  END IF;
END $setup$;
