-- Jobs follow tasks, instead of processes with leases.
DROP INDEX "TaskPush_leasedUntil_idx";
ALTER TABLE "TaskPush" DROP COLUMN "leasedUntil", DROP COLUMN "leaseId";
