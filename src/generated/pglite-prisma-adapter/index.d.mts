import * as pglite from "@electric-sql/pglite";
import { SqlDriverAdapter, SqlMigrationAwareDriverAdapterFactory } from "@prisma/driver-adapter-utils";

//#region src/pglite.d.ts

declare class PrismaPGliteAdapterFactory implements SqlMigrationAwareDriverAdapterFactory {
  private readonly client;
  readonly provider = "postgres";
  readonly adapterName: string;
  constructor(client: pglite.PGlite);
  connect(): Promise<SqlDriverAdapter>;
  connectToShadowDb(): Promise<SqlDriverAdapter>;
}
//#endregion
export { PrismaPGliteAdapterFactory as PrismaPGlite };