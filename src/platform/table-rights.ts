import { LOCK_MIGRATIONS_SQL } from './migrate.ts'

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`

/**
 * Returns statements with which the owner of Parley's tables in a schema grants another user the rights to use them.
 * The statements change nothing if the user already has the rights, and skip objects of other owners. `isJobs` is true
 * for the schema of the job queue, whose names are all in lower case.
 */
export function grantTablesSql(schema: string, user: string, { isJobs = false } = {}): string {
  return `BEGIN;
    ${LOCK_MIGRATIONS_SQL};
    DO $do$
    DECLARE
      space oid := (SELECT oid FROM pg_namespace WHERE nspname = ${literal(schema)});
      grantee text := ${literal(user)};
      one record;
    BEGIN
      IF NOT has_schema_privilege(grantee, space, 'USAGE')
        AND (SELECT pg_has_role(nspowner, 'MEMBER') FROM pg_namespace WHERE oid = space) THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', ${literal(schema)}, grantee);
      END IF;
      FOR one IN
        SELECT c.relname, c.relkind FROM pg_class c
        WHERE c.relnamespace = space AND pg_has_role(c.relowner, 'MEMBER') AND (c.relname ~ '^[A-Z]' OR ${isJobs})
          AND CASE WHEN c.relkind IN ('r', 'p') THEN
            NOT (has_table_privilege(grantee, c.oid, 'SELECT') AND has_table_privilege(grantee, c.oid, 'INSERT')
              AND has_table_privilege(grantee, c.oid, 'UPDATE') AND has_table_privilege(grantee, c.oid, 'DELETE'))
            WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(grantee, c.oid, 'USAGE') ELSE false END
      LOOP
        IF one.relkind = 'S' THEN
          EXECUTE format('GRANT USAGE ON SEQUENCE %I.%I TO %I', ${literal(schema)}, one.relname, grantee);
        ELSE
          EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I.%I TO %I', ${literal(schema)}, one.relname, grantee);
        END IF;
      END LOOP;
    END $do$;
    COMMIT`
}
