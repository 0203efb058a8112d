-- CreateTable
CREATE TABLE "File" (
    "id" TEXT COLLATE "C" NOT NULL,
    "ownerId" TEXT COLLATE "C" NOT NULL,
    "name" TEXT NOT NULL,
    "mediaType" TEXT NOT NULL,
    "size" INTEGER NOT NULL,
    "hash" TEXT COLLATE "C" NOT NULL,
    "width" INTEGER,
    "height" INTEGER,
    "thumbnailHash" TEXT COLLATE "C",
    "messageId" TEXT COLLATE "C",
    "spaceId" TEXT COLLATE "C",
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "File_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "FileText" (
    "fileId" TEXT COLLATE "C" NOT NULL,
    "text" TEXT NOT NULL,

    CONSTRAINT "FileText_pkey" PRIMARY KEY ("fileId")
);

-- CreateTable
CREATE TABLE "FileObject" (
    "hash" TEXT COLLATE "C" NOT NULL,
    "size" INTEGER NOT NULL,
    "storedAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "FileObject_pkey" PRIMARY KEY ("hash")
);

-- CreateTable
CREATE TABLE "UploadedBytes" (
    "ownerId" TEXT COLLATE "C" NOT NULL,
    "day" DATE NOT NULL,
    "bytes" BIGINT NOT NULL,

    CONSTRAINT "UploadedBytes_pkey" PRIMARY KEY ("ownerId","day")
);

-- CreateTable
CREATE TABLE "FileUpload" (
    "id" TEXT COLLATE "C" NOT NULL,
    "ownerId" TEXT COLLATE "C" NOT NULL,
    "name" TEXT NOT NULL,
    "size" INTEGER NOT NULL,
    "received" INTEGER NOT NULL DEFAULT 0,
    "parts" INTEGER[] DEFAULT ARRAY[]::INTEGER[],
    "fileId" TEXT COLLATE "C",
    "createdAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expiresAt" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "FileUpload_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "FileStorageUse" (
    "process" INTEGER NOT NULL,
    "storageId" TEXT COLLATE "C" NOT NULL,
    "seenAt" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "FileStorageUse_pkey" PRIMARY KEY ("process")
);

-- CreateIndex
CREATE INDEX "File_spaceId_id_idx" ON "File"("spaceId", "id");

-- CreateIndex
CREATE INDEX "File_messageId_idx" ON "File"("messageId");

-- CreateIndex
CREATE INDEX "File_ownerId_id_idx" ON "File"("ownerId", "id");

-- CreateIndex
CREATE INDEX "File_hash_idx" ON "File"("hash");

-- CreateIndex
CREATE INDEX "File_thumbnailHash_idx" ON "File"("thumbnailHash");

-- CreateIndex
CREATE INDEX "FileObject_storedAt_idx" ON "FileObject"("storedAt");

-- CreateIndex
CREATE INDEX "UploadedBytes_day_idx" ON "UploadedBytes"("day");

-- CreateIndex
CREATE INDEX "FileUpload_ownerId_idx" ON "FileUpload"("ownerId");

-- CreateIndex
CREATE INDEX "FileUpload_expiresAt_idx" ON "FileUpload"("expiresAt");

-- AddForeignKey
ALTER TABLE "File" ADD CONSTRAINT "File_messageId_fkey" FOREIGN KEY ("messageId") REFERENCES "Message"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "FileText" ADD CONSTRAINT "FileText_fileId_fkey" FOREIGN KEY ("fileId") REFERENCES "File"("id") ON DELETE CASCADE ON UPDATE CASCADE;
