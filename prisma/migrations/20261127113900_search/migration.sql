-- The searchable text of messages and files. Triggers keep it, so that it follows every writer of messages.
CREATE TABLE "SearchText" (
    "messageId" TEXT COLLATE "C" NOT NULL,
    "fileId" TEXT COLLATE "C" NOT NULL DEFAULT '',
    "spaceId" TEXT COLLATE "C" NOT NULL,
    "senderId" TEXT COLLATE "C" NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL,
    "plain" TEXT NOT NULL,
    "words" tsvector NOT NULL,

    CONSTRAINT "SearchText_pkey" PRIMARY KEY ("messageId", "fileId")
);

-- The words of a folded text. ASCII punctuation separates words, so that the parser finds no addresses and paths. In scripts
-- without spaces between words (Thai, Lao, Burmese, Khmer, Japanese, Chinese) each character is a word: queries for them are phrases.
-- src/rules/search-query.ts splits queries in the same way.
CREATE FUNCTION "searchWords"(folded text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_tsvector('pg_catalog.simple', translate(
  CASE WHEN octet_length(folded) = length(folded) THEN folded
    ELSE regexp_replace(folded, '([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])', ' \1 ', 'g') END,
  '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)));

-- The text of a message, as `Message.text`. Longer ones are found by their beginning.
CREATE FUNCTION "searchTextOf"(parts jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left((SELECT string_agg(part->>'text', chr(10) || chr(10) ORDER BY position)
  FROM jsonb_array_elements(parts) WITH ORDINALITY AS each(part, position) WHERE part->>'type' = 'text'), 100000);

-- Indexes the names and texts of the files of a message. Long texts are found by their beginning.
CREATE FUNCTION "indexFilesOf"(message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO "SearchText" ("messageId", "fileId", "spaceId", "senderId", "at", plain, words)
    SELECT m.id, f.id, m."spaceId", m."senderId", m."createdAt", folded.text, "searchWords"(folded.text)
    FROM "Message" m JOIN "File" f ON f."messageId" = m.id LEFT JOIN "FileText" t ON t."fileId" = f.id,
      LATERAL (SELECT "searchFold"(left(f.name || chr(10) || coalesce(t.text, ''), 100000)) AS text OFFSET 0) folded
    WHERE m.id = message AND m.status <> 'STREAMING'
  ON CONFLICT ("messageId", "fileId") DO UPDATE SET plain = excluded.plain, words = excluded.words;
END $$;

-- Creates what depends on the extensions that this database has, and fills the table again. Called by this migration, and
-- by operators who add an extension later (docs/search.md).
CREATE FUNCTION "searchSetup"() RETURNS void LANGUAGE plpgsql AS $setup$
DECLARE
  wanted text;
  of_unaccent text;
  of_trigrams text;
  without_accents text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['unaccent', 'pg_trgm'] LOOP
    BEGIN
      EXECUTE format('CREATE EXTENSION IF NOT EXISTS %I', wanted);
    EXCEPTION WHEN OTHERS THEN
      RAISE NOTICE 'search does without the extension %: %', wanted, SQLERRM;
    END;
  END LOOP;
  SELECT quote_ident(n.nspname) INTO of_unaccent FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'unaccent' AND has_schema_privilege(n.oid, 'USAGE');
  SELECT quote_ident(n.nspname) INTO of_trigrams FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_trgm' AND has_schema_privilege(n.oid, 'USAGE');

  -- Without `unaccent` an accent is removed if the letter can be decomposed: é, but not ø.
  without_accents := CASE WHEN of_unaccent IS NULL
    THEN $sql$normalize(regexp_replace(normalize(given, NFKD), '[\u0300-\u036f]', '', 'g'), NFC)$sql$
    ELSE format($sql$%1$s.unaccent('%1$s.unaccent'::regdictionary, regexp_replace(normalize(given, NFKC), '[\u0300-\u036f]', '', 'g'))$sql$, of_unaccent) END;
  EXECUTE format($sql$
    CREATE OR REPLACE FUNCTION "searchFold"(given text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN octet_length(given) = length(given) THEN lower(given) ELSE lower(%s) END$sql$, without_accents);

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

-- A streaming message is indexed once it has ended.
CREATE FUNCTION "followMessage"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  folded text := "searchFold"(CASE WHEN jsonb_array_length(NEW.parts) = 1 THEN left(NEW.parts->0->>'text', 100000) ELSE "searchTextOf"(NEW.parts) END);
BEGIN
  IF folded <> '' THEN
    INSERT INTO "SearchText" ("messageId", "spaceId", "senderId", "at", plain, words)
      VALUES (NEW.id, NEW."spaceId", NEW."senderId", NEW."createdAt", folded, "searchWords"(folded))
      ON CONFLICT ("messageId", "fileId") DO UPDATE SET plain = excluded.plain, words = excluded.words;
  ELSIF TG_OP = 'UPDATE' THEN
    DELETE FROM "SearchText" WHERE "messageId" = NEW.id AND "fileId" = '';
  END IF;
  IF NEW.parts @? '$[*] ? (@.type == "file")' THEN
    PERFORM "indexFilesOf"(NEW.id);
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION "followFile"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM "SearchText" WHERE "messageId" = OLD."messageId" AND "fileId" = OLD.id;
  ELSE
    PERFORM "indexFilesOf"(NEW."messageId");
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION "followFileText"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM "indexFilesOf"(f."messageId") FROM "File" f WHERE f.id = NEW."fileId" AND f."messageId" IS NOT NULL;
  RETURN NULL;
END $$;

CREATE TRIGGER "Message_search_new" AFTER INSERT ON "Message" FOR EACH ROW
  WHEN (NEW.status <> 'STREAMING') EXECUTE FUNCTION "followMessage"();
CREATE TRIGGER "Message_search_changed" AFTER UPDATE OF parts, status ON "Message" FOR EACH ROW
  WHEN (NEW.status <> 'STREAMING' AND (OLD.status = 'STREAMING' OR OLD.parts IS DISTINCT FROM NEW.parts))
  EXECUTE FUNCTION "followMessage"();
CREATE TRIGGER "File_search_sent" AFTER INSERT OR UPDATE OF "messageId", name ON "File" FOR EACH ROW
  WHEN (NEW."messageId" IS NOT NULL) EXECUTE FUNCTION "followFile"();
CREATE TRIGGER "File_search_deleted" AFTER DELETE ON "File" FOR EACH ROW
  WHEN (OLD."messageId" IS NOT NULL) EXECUTE FUNCTION "followFile"();
CREATE TRIGGER "FileText_search" AFTER INSERT OR UPDATE ON "FileText" FOR EACH ROW EXECUTE FUNCTION "followFileText"();

SELECT "searchSetup"();

CREATE INDEX "SearchText_spaceId_messageId_idx" ON "SearchText"("spaceId", "messageId");
ALTER TABLE "SearchText" ADD CONSTRAINT "SearchText_messageId_fkey" FOREIGN KEY ("messageId") REFERENCES "Message"("id") ON DELETE CASCADE ON UPDATE CASCADE;
