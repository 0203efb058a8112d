import { createHash, randomBytes } from 'node:crypto'
import type { MailCode, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { LinkPurpose } from '../rules/mail-links.ts'

// Contains the statements that write the table "MailCode".

export type { MailCode } from '../generated/prisma/client.ts'

const CODE_BYTES = 32
/** The format of a code. A string in any other format needs no lookup. */
const IS_CODE = /^[\w-]{43}$/
const MOST_DELETED_AT_ONCE = 200

const hashOf = (code: string) => createHash('sha256').update(code).digest('hex')

/** Creates a code, and deletes some expired codes. Returns the code. The database stores only its hash. */
export async function insertMailCode(
  tx: Tx,
  { purpose, ...row }: Omit<MailCode, 'hash' | 'purpose'> & { purpose: LinkPurpose },
): Promise<string> {
  await tx.$executeRaw`
    DELETE FROM "MailCode" WHERE hash IN (
      SELECT hash FROM "MailCode" WHERE "expiresAt" <= ${row.createdAt} ORDER BY "expiresAt" LIMIT ${MOST_DELETED_AT_ONCE} FOR UPDATE SKIP LOCKED)`
  const code = randomBytes(CODE_BYTES).toString('base64url')
  await tx.mailCode.create({ data: { ...row, purpose, hash: hashOf(code) } })
  return code
}

/** Reads a code that has not expired. */
export async function findMailCode(tx: Tx, code: string, now: Date): Promise<MailCode | null> {
  if (!IS_CODE.test(code)) return null
  return tx.mailCode.findFirst({ where: { hash: hashOf(code), expiresAt: { gt: now } } })
}

/** Counts the codes of an address that are still valid. */
export function countMailCodes(
  tx: Tx,
  { purpose, email, now }: { purpose: LinkPurpose; email: string; now: Date },
): Promise<number> {
  return tx.mailCode.count({ where: { purpose, email, expiresAt: { gt: now } } })
}

/** Uses up a code. Returns false if another request has already used it. */
export async function useMailCode(tx: Tx, { hash }: Pick<MailCode, 'hash'>): Promise<boolean> {
  return (await tx.mailCode.deleteMany({ where: { hash } })).count > 0
}

export async function deleteMailCodes(tx: Tx, where: Prisma.MailCodeWhereInput): Promise<void> {
  await tx.mailCode.deleteMany({ where })
}
