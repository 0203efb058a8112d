-- Whether somebody acted as the sender of a message, also without being named, or when editing it.

ALTER TABLE "Message" ADD COLUMN "acted" BOOLEAN NOT NULL DEFAULT false;
UPDATE "Message" SET "acted" = true WHERE "actingAdminId" IS NOT NULL;
