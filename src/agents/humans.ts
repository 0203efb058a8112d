import type { Viewer } from '../access/viewer.ts'
import { type Entity, type HumanRole, Prisma } from '../generated/prisma/client.ts'
import { checkEmail } from '../lib/email.ts'
import { BadInputError, ConflictError } from '../lib/errors.ts'
import { prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { checkName, checkSearch, checkText, likePattern } from '../lib/validate.ts'
import { isUniqueViolation, isViolationOf } from '../platform/database-errors.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin, requireAdmin } from '../rules/permissions.ts'
import { insertHuman, showsEverybodySql } from '../stores/human-store.ts'

export interface CreateHumanInput {
  name: string
  /** The `sub` claim of the human's sign-in tokens. It must be unique. */
  externalId?: string | null
  /** The role of the human. The default is MEMBER. */
  role?: HumanRole | null
  /** The email address. It must be unique, ignoring case. */
  email?: string | null
}

export interface Humans {
  /**
   * Creates a human. Only admins may do this.
   * @throws BadInputError; ConflictError if another human has the `externalId` or `email`
   */
  create(viewer: Viewer, input: CreateHumanInput): Promise<Entity>
  /**
   * Returns a page of humans, newest first. Admins get all humans who were not erased. Humans get those whom
   * PARLEY_DIRECTORY lets them see, and services get none. `search` matches the name, ignoring case. A blank search
   * does not filter.
   */
  page(viewer: Viewer, request: PageRequest, search: string | null): Promise<Page<Entity>>
  /** Returns humans in the order of the ids; null for an unknown id or an agent. Does not check visibility. */
  getMany(ids: readonly string[]): Promise<(Entity | null)[]>
}

const LONGEST_EXTERNAL_ID = 255

export function createHumans({ db, clock, config }: Pick<Platform, 'db' | 'clock' | 'config'>): Humans {
  async function getMany(ids: readonly string[]): Promise<(Entity | null)[]> {
    const rows = await db.prisma.entity.findMany({ where: { kind: 'HUMAN', id: { in: wellFormedIds(ids) } } })
    return inOrderOf(ids, rows)
  }

  return {
    getMany,
    async create(viewer, input) {
      requireAdmin(viewer, 'create humans')
      const name = checkName(input.name, 'input.name')
      const externalId = input.externalId == null ? null : checkExternalId(input.externalId)
      const email = input.email == null ? null : checkEmail(input.email, 'input.email')
      try {
        const role = input.role ?? 'MEMBER'
        const createdAt = new Date(clock.now())
        return await db.transaction((tx) => insertHuman(tx, { name, externalId, email, role, createdAt }))
      } catch (error) {
        throw conflictOf(error)
      }
    },
    async page(viewer, request, search) {
      const source = directoryOf(viewer, checkSearch(search), showsEverybodySql(config.directory))
      return fetchPage(db.prisma, { source, request }, getMany)
    },
  }
}

/**
 * If the error means that another human has the same `externalId` or `email`, returns a ConflictError. Otherwise
 * returns the error.
 */
export function conflictOf(error: unknown): unknown {
  if (!isUniqueViolation(error)) return error
  return new ConflictError(`Another human has this ${isViolationOf(EMAIL_INDEX, error) ? 'email' : 'externalId'}.`)
}

/** The unique index of email addresses, which the migration creates. */
const EMAIL_INDEX = 'Entity_email_key'

function directoryOf(viewer: Viewer, search: string, showsEverybody: Prisma.Sql): Prisma.Sql {
  if (viewer.scope === 'SERVICE') return Prisma.sql`SELECT id FROM "Entity" WHERE false`
  const shared = Prisma.sql`AND (${showsEverybody} OR EXISTS (
    SELECT 1 FROM "Membership" mine JOIN "Membership" theirs USING ("spaceId")
    WHERE mine."entityId" = ${viewer.id} AND theirs."entityId" = e.id))`
  return Prisma.sql`
    SELECT e.id FROM "Entity" e WHERE e.kind = 'HUMAN' AND e."goneAt" IS NULL
    ${search === '' ? Prisma.empty : Prisma.sql`AND e.name ILIKE ${likePattern(search)}`}
    ${isAdmin(viewer) ? Prisma.empty : shared}`
}

/** Rejects ids in Parley's own format, because such an id would allow a person to sign in as another human. */
export function checkExternalId(externalId: string): string {
  checkText(externalId, LONGEST_EXTERNAL_ID, 'input.externalId')
  if (externalId.trim() === '' || prefixOf(externalId) !== null) {
    throw new BadInputError(
      'An externalId is the id of the human at your identity provider. It must not be blank, and must not look like a Parley id.',
      'input.externalId',
    )
  }
  return externalId
}
