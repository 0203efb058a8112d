// npm run check:migrations: prisma/migrations must lead to exactly what prisma/schema.prisma says.
import { schemaDrift } from './schema-drift.ts'

const sql = await schemaDrift()
if (sql !== null) {
  console.error(`prisma/schema.prisma differs from the migrations; run \`npm run migrate:new -- <name>\`:\n${sql}`)
  process.exit(1)
}
console.log('the migrations match schema.prisma')
