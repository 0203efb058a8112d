-- CreateTable
CREATE TABLE "AuditEntry" (
    "id" TEXT NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "actorId" TEXT,
    "serviceName" TEXT,
    "action" TEXT NOT NULL,
    "targetId" TEXT,
    "detail" JSONB NOT NULL DEFAULT '{}',
    "refused" BOOLEAN NOT NULL DEFAULT false,

    CONSTRAINT "AuditEntry_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "AuditEntry_actorId_id_idx" ON "AuditEntry"("actorId", "id");

-- CreateIndex
CREATE INDEX "AuditEntry_targetId_id_idx" ON "AuditEntry"("targetId", "id");

-- CreateIndex
CREATE INDEX "AuditEntry_action_id_idx" ON "AuditEntry"("action", "id");

-- CreateIndex
CREATE INDEX "AuditEntry_at_idx" ON "AuditEntry"("at");

-- What is on record is never changed; it is deleted by its age alone, by whoever says that this is what it does.
CREATE FUNCTION "keepRecord"() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('parley.retention', true) = 'on' THEN RETURN OLD; END IF;
  RAISE EXCEPTION 'The audit log is append-only.';
END $$;
CREATE TRIGGER "AuditEntry_append_only" BEFORE UPDATE OR DELETE ON "AuditEntry" FOR EACH ROW EXECUTE FUNCTION "keepRecord"();
