/** Holds the parts of an engine at named points until they are released. */
export interface Gates {
  /** Resolves when the gate is released, or was released in advance. */
  reach(gate: string, runId: string): Promise<void>
  /** Releases one waiting part at the gate. Returns false if none waits. */
  release(gate: string): boolean
  /** Opens all gates for a run from now on. */
  openRun(runId: string): void
  /** Opens all gates from now on. */
  openAll(): void
  isHeld(runId: string): boolean
  isWaiting(gate: string): boolean
}

export function createGates(): Gates {
  const waiting: { gate: string; runId: string; pass: () => void }[] = []
  const open = new Set<string>()
  let isOpen = false

  function passAll(which: (one: (typeof waiting)[number]) => boolean): void {
    for (const one of waiting.filter(which)) {
      waiting.splice(waiting.indexOf(one), 1)
      one.pass()
    }
  }

  return {
    async reach(gate, runId) {
      if (isOpen || open.has(runId)) return
      await new Promise<void>((pass) => waiting.push({ gate, runId, pass }))
    },
    release(gate) {
      const index = waiting.findIndex((one) => one.gate === gate)
      const [found] = index === -1 ? [] : waiting.splice(index, 1)
      found?.pass()
      return found !== undefined
    },
    openRun(runId) {
      open.add(runId)
      passAll((one) => one.runId === runId)
    },
    openAll() {
      isOpen = true
      passAll(() => true)
    },
    isHeld: (runId) => waiting.some((one) => one.runId === runId),
    isWaiting: (gate) => waiting.some((one) => one.gate === gate),
  }
}
