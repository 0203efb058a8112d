-- The sweep of files that were uploaded and not sent runs each minute: without this index, it reads all files.
CREATE INDEX "File_unsent" ON "File" ("id") WHERE "messageId" IS NULL AND "callId" IS NULL;
