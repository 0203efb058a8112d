-- The same key, or name, under another label is another memory, or plan.
DROP INDEX "Plan_agentId_name_key";
CREATE INDEX "Plan_agentId_name_idx" ON "Plan"("agentId", "name");

ALTER TABLE "Memory" ADD COLUMN "id" TEXT;
UPDATE "Memory" SET "id" = 'mem_' || lpad(to_hex((extract(epoch FROM "updatedAt") * 1000)::bigint), 12, '0') || substr(md5("agentId" || ':' || "key"), 1, 20);
ALTER TABLE "Memory" DROP CONSTRAINT "Memory_pkey",
ALTER COLUMN "id" SET NOT NULL,
ADD CONSTRAINT "Memory_pkey" PRIMARY KEY ("id");
CREATE INDEX "Memory_agentId_key_idx" ON "Memory"("agentId", "key");
