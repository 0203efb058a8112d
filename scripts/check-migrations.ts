// npm run check:migrations: checks that prisma/migrations result in exactly prisma/schema.prisma.
import { schemaDrift } from './schema-drift.ts'

const sql = await schemaDrift()
if (sql !== null) {
  console.error(`prisma/schema.prisma differs from the migrations; run \`npm run migrate:new -- <name>\`:\n${sql}`)
  process.exit(1)
}
console.log('the migrations match schema.prisma')
