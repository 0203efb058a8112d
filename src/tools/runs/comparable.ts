import type { Discretion } from '../../confidence/discretion.ts'
import { marksOf } from '../../confidence/marks.ts'
import type { Run } from '../../generated/prisma/client.ts'

/** Of these runs those of which one is told more than that there are: what they know it knows too. */
export async function comparable(
  discretion: Pick<Discretion, 'toCompare'>,
  own: Run,
  others: readonly Run[],
): Promise<ReadonlySet<string>> {
  const known = new Set(marksOf(own))
  const unclear = others.filter((other) => marksOf(other).some((id) => !known.has(id)))
  const hidden = unclear.length === 0 ? new Set<string>() : await discretion.toCompare(own, unclear)
  return new Set(others.flatMap(({ id }) => (hidden.has(id) ? [] : [id])))
}
