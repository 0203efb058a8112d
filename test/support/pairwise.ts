/** One value for each dimension. */
export type Cell<D extends Record<string, readonly unknown[]>> = { [Name in keyof D]: D[Name][number] }

/** Returns every combination of the dimensions' values. */
export function allCells<D extends Record<string, readonly unknown[]>>(dimensions: D): Cell<D>[] {
  return Object.entries(dimensions).reduce<Record<string, unknown>[]>(
    (cells, [name, values]) => cells.flatMap((cell) => values.map((value) => ({ ...cell, [name]: value }))),
    [{}],
  ) as Cell<D>[]
}

/**
 * Returns a small number of combinations in which every pair of values of two dimensions occurs. Repeatedly chooses the
 * combination with the most new pairs.
 */
export function pairwiseCells<D extends Record<string, readonly unknown[]>>(dimensions: D): Cell<D>[] {
  const all = allCells(dimensions)
  const open = new Set(all.flatMap(pairsOf))
  const chosen: Cell<D>[] = []
  while (open.size > 0) {
    const newOf = (cell: Cell<D>) => pairsOf(cell).filter((pair) => open.has(pair)).length
    const best = all.reduce((one, other) => (newOf(other) > newOf(one) ? other : one))
    chosen.push(best)
    for (const pair of pairsOf(best)) open.delete(pair)
  }
  return chosen
}

function pairsOf(cell: object): string[] {
  const entries = Object.entries(cell)
  return entries.flatMap((one, index) => entries.slice(index + 1).map((other) => JSON.stringify([one, other])))
}
