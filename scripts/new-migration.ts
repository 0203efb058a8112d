// npm run migrate:new -- <name>: writes a new migration with the SQL that changes the existing schema to prisma/schema.prisma.
// Review the SQL before you commit it, because a rename appears as a drop and an add.
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { schemaDrift } from './schema-drift.ts'

const name = process.argv[2]
if (!name || !/^[a-z0-9_]+$/.test(name)) {
  console.error('usage: npm run migrate:new -- <name_in_snake_case>')
  process.exit(1)
}
const sql = await schemaDrift()
if (sql === null) {
  console.log('the migrations already match schema.prisma')
  process.exit(0)
}
// Columns of ids are compared by their bytes, which Prisma's schema cannot express (see test/platform/collation.test.ts).
const ordered = sql.replace(
  /("(?:id|hash|\w+Ids?|dedupKey|places|askers|forgets)"\s+TEXT(?:\[\])?)(?! COLLATE)/g,
  '$1 COLLATE "C"',
)
const stamp = new Date().toISOString().replace(/\D/g, '').slice(0, 14)
const folder = path.join('prisma/migrations', `${stamp}_${name}`)
await mkdir(folder, { recursive: true })
await writeFile(path.join(folder, 'migration.sql'), ordered)
console.log(`wrote ${folder}/migration.sql`)
