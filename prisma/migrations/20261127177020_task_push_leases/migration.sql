-- The followers of an earlier version have no lease: their tasks are followed again once their time is over.
ALTER TABLE "TaskPush" ADD COLUMN "leaseId" TEXT NOT NULL DEFAULT '';

ALTER TABLE "TaskPush" ALTER COLUMN "leaseId" DROP DEFAULT;
