-- AlterTable
ALTER TABLE "Step" ADD COLUMN     "keyOrders" JSONB;

-- AlterTable
ALTER TABLE "ToolCall" ADD COLUMN     "outputKeyOrders" JSONB;
