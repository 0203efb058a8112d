import type { Viewer } from '../access/viewer.ts'
import type { Entity } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError, ForbiddenError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { checkName, checkText } from '../lib/validate.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'

export interface CreateHumanInput {
  name: string
  /** The `sub` of this human's sign-in tokens; unique. */
  externalId?: string | null
}

/** The people who take part. */
export interface Humans {
  /** Admins only. @throws BadInputError; ConflictError where another human has the `externalId`. */
  create(viewer: Viewer, input: CreateHumanInput): Promise<Entity>
  /** By id, in the order of the ids; null where there is none, or it is an agent. Says nothing of who may see them. */
  getMany(ids: readonly string[]): Promise<(Entity | null)[]>
}

const LONGEST_EXTERNAL_ID = 255

export function createHumans({ db, clock }: Pick<Platform, 'db' | 'clock'>): Humans {
  return {
    async create(viewer, input) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can create humans.')
      const name = checkName(input.name, 'input.name')
      const externalId = input.externalId == null ? null : checkExternalId(input.externalId)
      try {
        return await db.prisma.entity.create({
          data: { id: newId('hum'), kind: 'HUMAN', name, externalId, createdAt: new Date(clock.now()) },
        })
      } catch (error) {
        throw isUniqueViolation(error) ? new ConflictError('Another human has this externalId.') : error
      }
    },
    async getMany(ids) {
      const rows = await db.prisma.entity.findMany({ where: { kind: 'HUMAN', id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
  }
}

/** One that looks like an id of ours could be taken for another human at sign-in. */
function checkExternalId(externalId: string): string {
  checkText(externalId, LONGEST_EXTERNAL_ID, 'input.externalId')
  if (externalId.trim() === '' || prefixOf(externalId) !== null) {
    throw new BadInputError(
      'An externalId is what your sign-in calls the human, not blank and no id of Parley.',
      'input.externalId',
    )
  }
  return externalId
}
