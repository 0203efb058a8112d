// npm run schema:print: writes the public schema to schema.graphql. With --check, only compares that file with the schema.
import { readFile, writeFile } from 'node:fs/promises'
import { lexicographicSortSchema, printSchema } from 'graphql'
import { schema } from '../src/graphql/schema.ts'

const FILE = 'schema.graphql'
const printed = `# Printed by \`npm run schema:print\` from src/graphql; reviewed as the public contract.\n\n${printSchema(lexicographicSortSchema(schema))}\n`

if (process.argv.includes('--check')) {
  const committed = await readFile(FILE, 'utf8').catch(() => '')
  if (committed !== printed) {
    console.error('schema.graphql is out of date: run `npm run schema:print` and review the diff')
    process.exit(1)
  }
  console.log('schema.graphql is up to date')
} else {
  await writeFile(FILE, printed)
}
