-- The meanings of searchable texts, for PARLEY_EMBEDDINGS. The vectors are arrays, which need no extension and have any
-- dimension: docs/decisions/search-by-meaning.md. Rows of about a page are stored in place, because a search reads all of them.
CREATE TABLE "SearchVector" (
    "messageId" TEXT COLLATE "C" NOT NULL,
    "fileId" TEXT COLLATE "C" NOT NULL,
    "vector" REAL[],
    "model" TEXT COLLATE "C",
    "revision" INTEGER NOT NULL DEFAULT 0,

    CONSTRAINT "SearchVector_pkey" PRIMARY KEY ("messageId", "fileId")
);

CREATE TABLE "SearchModel" (
    "id" INTEGER NOT NULL DEFAULT 1,
    "name" TEXT COLLATE "C" NOT NULL,
    "backfillBefore" TEXT COLLATE "C",

    CONSTRAINT "SearchModel_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "SearchModel_one" CHECK ("id" = 1)
);

ALTER TABLE "SearchVector" ALTER COLUMN "vector" SET STORAGE MAIN;
CREATE INDEX "SearchVector_pending" ON "SearchVector" ("messageId", "fileId") WHERE "vector" IS NULL;
ALTER TABLE "SearchVector" ADD CONSTRAINT "SearchVector_messageId_fileId_fkey" FOREIGN KEY ("messageId", "fileId") REFERENCES "SearchText"("messageId", "fileId") ON DELETE CASCADE ON UPDATE CASCADE;

-- A vector belongs to one text: it goes in the transaction that changes the text.
CREATE FUNCTION "followSearchText"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM "SearchModel") THEN
    INSERT INTO "SearchVector" ("messageId", "fileId") VALUES (NEW."messageId", NEW."fileId")
      ON CONFLICT ("messageId", "fileId") DO UPDATE SET vector = NULL, model = NULL, revision = "SearchVector".revision + 1;
  ELSIF TG_OP = 'UPDATE' THEN
    DELETE FROM "SearchVector" WHERE "messageId" = NEW."messageId" AND "fileId" = NEW."fileId";
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER "SearchText_vector_new" AFTER INSERT ON "SearchText" FOR EACH ROW EXECUTE FUNCTION "followSearchText"();
CREATE TRIGGER "SearchText_vector_changed" AFTER UPDATE OF plain ON "SearchText" FOR EACH ROW
  WHEN (OLD.plain IS DISTINCT FROM NEW.plain) EXECUTE FUNCTION "followSearchText"();
