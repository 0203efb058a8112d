// npm run check:contract: compares schema.graphql with the contract next to this file, and prints changes that break clients or
// could break them. Exits with 1 if there are any. The schema may add to the contract, but never remove from it.
import { readFileSync } from 'node:fs'
import { buildSchema, findBreakingChanges, findDangerousChanges } from 'graphql'

const contract = buildSchema(readFileSync(new URL('schema.graphql', import.meta.url), 'utf8'))
const actual = buildSchema(readFileSync('schema.graphql', 'utf8'))
const breaks = [...findBreakingChanges(contract, actual), ...findDangerousChanges(contract, actual)]
for (const { type, description } of breaks) console.error(`${type}: ${description}`)
if (breaks.length > 0) {
  console.error(`${breaks.length} differences break the contract`)
  process.exit(1)
}
console.log('the contract holds')
