// npm run rotate-secrets: decrypts secrets with PARLEY_SECRET_KEY_BEFORE, and encrypts them with PARLEY_SECRET_KEY. Can be run
// repeatedly. Lists the secrets that could not be decrypted, and exits with 1 if there are any. Reads DATABASE_URL or DATA_DIR,
// as the server does. Stop an embedded server first.
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { oneLine } from '../src/lib/json.ts'
import { type Rotation, resealAll } from '../src/operation/key-rotation.ts'
import { openDatabase } from '../src/platform/db.ts'
import { createSecretBox } from '../src/platform/secret-box.ts'

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

async function rotate(): Promise<Rotation> {
  const { databaseUrl: url, directDatabaseUrl: directUrl, dataDirectory, secretKey, secretKeyBefore } = readConfig()
  if (secretKey === null || secretKeyBefore === null)
    fail('Set PARLEY_SECRET_KEY to the new key, and PARLEY_SECRET_KEY_BEFORE to the old one.')
  const db = await openDatabase({ url, directUrl, dataDirectory, poolSize: 1 })
  try {
    return await resealAll(db, createSecretBox(secretKey, secretKeyBefore))
  } finally {
    await db.close()
  }
}

if (process.argv.length > 2)
  fail('usage: npm run rotate-secrets, with PARLEY_SECRET_KEY and PARLEY_SECRET_KEY_BEFORE in the environment')
const { rotated, failed } = await rotate().catch((error: unknown) => fail(oneLine(messageOf(error))))
console.log(`${rotated} secrets are encrypted with the new key`)
for (const { table, column, id, reason } of failed) console.error(`${table} ${oneLine(id)} ${column}: ${reason}`)
// Set the exit code last, because an embedded database sets the exit code of the process when it closes.
if (failed.length > 0)
  fail(
    `${failed.length} secrets were not rotated: set them again (updateAgent, rotateWebhookSecret), then run this command again.`,
  )
