-- As src/lib/ids.ts makes them: time-ordered.
CREATE FUNCTION "newId"(prefix TEXT) RETURNS TEXT LANGUAGE sql VOLATILE AS $$
  SELECT prefix || '_' || lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
    || substr(replace(gen_random_uuid()::text, '-', ''), 13)
$$;

-- What is there already gets ids in the order in which it came.
ALTER TABLE "Cycle" ADD COLUMN "id" TEXT;
UPDATE "Cycle" SET "id" = 'cyc_' || lpad(to_hex((extract(epoch FROM "createdAt") * 1000)::bigint), 12, '0')
  || lpad(to_hex("index"), 8, '0') || substr(md5("agentId"), 1, 12);
ALTER TABLE "Cycle" ALTER COLUMN "id" SET NOT NULL, ALTER COLUMN "id" SET DEFAULT "newId"('cyc');
CREATE UNIQUE INDEX "Cycle_id_key" ON "Cycle"("id");
CREATE INDEX "Cycle_agentId_id_idx" ON "Cycle"("agentId", "id");

ALTER TABLE "Run" ADD COLUMN "forgets" TEXT[] NOT NULL DEFAULT ARRAY[]::TEXT[];
