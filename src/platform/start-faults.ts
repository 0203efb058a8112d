import { messageOf } from '../lib/errors.ts'

/** Thrown at startup for settings that cannot be used. Each fault names the variable and a valid setting. */
export class StartFaults extends Error {
  readonly faults: string[]
  constructor(faults: string[]) {
    super(faults.length === 1 ? faults[0] : faults.map((fault) => `\n  ${fault}`).join(''))
    this.name = 'StartFaults'
    this.faults = faults
  }
}

/** Returns the lines that explain to the operator why the server did not start. */
export function faultsOf(error: unknown): string[] {
  return error instanceof StartFaults ? error.faults : [messageOf(error)]
}
