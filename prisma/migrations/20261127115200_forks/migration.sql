-- Spaces that are copies of others, and their agents.
ALTER TABLE "Space" ADD COLUMN "forkOfId" TEXT COLLATE "C", ADD COLUMN "forkSeq" INTEGER, ADD COLUMN "unindexedSeq" INTEGER;
CREATE INDEX "Space_forkOfId_idx" ON "Space"("forkOfId") WHERE "forkOfId" IS NOT NULL;
ALTER TABLE "Agent" ADD COLUMN "copyOfId" TEXT COLLATE "C";

-- The id of the copy of a row in a copy of a space; src/lib/copied-id.ts has the same function. The copy keeps the time of
-- the id, so that copies have the order of their originals and pass their retention with them.
CREATE FUNCTION "copiedId"(id text, into_space text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(id, 26) || right(md5(id || into_space), 10);

-- A copy of a space fills the search index by itself: the newest messages at once, others after the commit.
DROP TRIGGER "Message_search_new" ON "Message";
CREATE TRIGGER "Message_search_new" AFTER INSERT ON "Message" FOR EACH ROW
  WHEN (NEW.status <> 'STREAMING' AND current_setting('parley.copying', true) IS DISTINCT FROM 'on')
  EXECUTE FUNCTION "followMessage"();
