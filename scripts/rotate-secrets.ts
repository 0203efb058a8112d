// npm run rotate-secrets: encrypts anew with PARLEY_SECRET_KEY what was encrypted with PARLEY_SECRET_KEY_BEFORE. May be run again.
// Reads DATABASE_URL or DATA_DIR as the server does; an embedded server has to be stopped meanwhile.
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { resealAll } from '../src/operation/key-rotation.ts'
import { openDatabase } from '../src/platform/db.ts'
import { createSecretBox } from '../src/platform/secret-box.ts'

const { databaseUrl: url, dataDirectory, secretKey, secretKeyBefore } = readConfig()
if (secretKey === null || secretKeyBefore === null) {
  console.error('Give PARLEY_SECRET_KEY, the new key, and PARLEY_SECRET_KEY_BEFORE, the one before.')
  process.exit(1)
}
try {
  const db = await openDatabase({ url, dataDirectory, poolSize: 1 })
  console.log(
    `${await resealAll(db, createSecretBox(secretKey, secretKeyBefore))} secrets are encrypted with the new key`,
  )
  await db.close()
} catch (error) {
  console.error(messageOf(error))
  process.exit(1)
}
