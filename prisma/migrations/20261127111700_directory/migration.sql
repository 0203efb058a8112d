-- CreateTable
CREATE TABLE "ServerDefault" (
    "name" TEXT COLLATE "C" NOT NULL,
    "value" TEXT NOT NULL,

    CONSTRAINT "ServerDefault_pkey" PRIMARY KEY ("name")
);

-- People of an installation that exists already do not see more of each other after an upgrade.
INSERT INTO "ServerDefault" ("name", "value")
SELECT 'directory', CASE WHEN EXISTS (SELECT 1 FROM "Entity") THEN 'shared' ELSE 'everyone' END;
