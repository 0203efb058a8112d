const told = new Set<string>()

/** Prints, once per process, why tests are skipped. @throws on a CI machine, where they must run */
export function skipFor(reason: string): void {
  if (process.env.CI === 'true') throw new Error(`${reason}, and on CI its tests must run`)
  if (!told.has(reason)) console.warn(`\n!!! ${reason}: its tests are SKIPPED.\n`)
  told.add(reason)
}
