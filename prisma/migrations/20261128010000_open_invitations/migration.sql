-- Open invitations are listed and revoked. Those that exist count as created now, by an unknown admin.
ALTER TABLE "Invitation"
  ADD COLUMN "id" TEXT COLLATE "C" NOT NULL DEFAULT "newId"('inv'),
  ADD COLUMN "inviterId" TEXT COLLATE "C",
  ADD COLUMN "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP;
CREATE UNIQUE INDEX "Invitation_id_key" ON "Invitation"("id");
