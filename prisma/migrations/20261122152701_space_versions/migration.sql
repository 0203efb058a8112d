-- What routing decides on in a space has a version: whoever decided beforehand names the one that it knew, and is refused where
-- that is not the space's any more. Triggers raise it, so that nobody can forget to, an older process beside this one neither.
ALTER TABLE "Space" ADD COLUMN "version" INTEGER NOT NULL DEFAULT 0;

CREATE FUNCTION "raiseSpaceVersion"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  RETURN NEW;
END $$;

CREATE TRIGGER "Space_settings" BEFORE UPDATE OF name, routing, "adminAgentId", "lastPickedId", "lastPickedJoinedAt", "deletedAt" ON "Space"
  FOR EACH ROW EXECUTE FUNCTION "raiseSpaceVersion"();

CREATE FUNCTION "raiseVersionOfSpaces"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE "Space" SET version = version + 1 WHERE id IN (SELECT "spaceId" FROM changed);
  RETURN NULL;
END $$;

CREATE TRIGGER "Membership_joined" AFTER INSERT ON "Membership" REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION "raiseVersionOfSpaces"();
CREATE TRIGGER "Membership_left" AFTER DELETE ON "Membership" REFERENCING OLD TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION "raiseVersionOfSpaces"();
