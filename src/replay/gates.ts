import type { ToolCall } from '../generated/prisma/client.ts'
import type { Recorded } from './recording.ts'

/** Makes parts of an engine wait at named points until they are released. */
export interface Gates {
  /** Waits at a gate. Resolves when the gate is released. */
  reach(gate: string, runId: string): Promise<void>
  /** Releases one part that waits at the gate. Returns false if none is waiting. */
  release(gate: string): boolean
  /** Opens all gates for a run permanently. */
  openRun(runId: string): void
  /** Opens all gates permanently. */
  openAll(): void
  isHeld(runId: string): boolean
  /** Resolves when something reaches a gate. */
  reached(): Promise<void>
}

/** Returns the name of the gate before a call is executed. */
export const callGate = (
  runId: string | undefined,
  { stepIndex, modelCallId }: Pick<Recorded<ToolCall>, 'stepIndex' | 'modelCallId'>,
): string => `call ${runId} ${stepIndex} ${modelCallId}`

export function createGates(): Gates {
  const waiting: { gate: string; runId: string; pass: () => void }[] = []
  const open = new Set<string>()
  let isOpen = false
  let next = Promise.withResolvers<void>()

  function passAll(which: (one: (typeof waiting)[number]) => boolean): void {
    for (const one of waiting.filter(which)) {
      waiting.splice(waiting.indexOf(one), 1)
      one.pass()
    }
  }

  return {
    async reach(gate, runId) {
      if (isOpen || open.has(runId)) return
      const { promise, resolve: pass } = Promise.withResolvers<void>()
      waiting.push({ gate, runId, pass })
      next.resolve()
      next = Promise.withResolvers<void>()
      await promise
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
    reached: () => next.promise,
  }
}
