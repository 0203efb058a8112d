/** Returns the object for each id, in the order of the ids; null for an id without an object. */
export function inOrderOf<T extends { id: string }>(ids: readonly string[], found: readonly T[]): (T | null)[] {
  const byId = new Map(found.map((item) => [item.id, item]))
  return ids.map((id) => byId.get(id) ?? null)
}
