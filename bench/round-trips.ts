import { BOUNDS, type Cost, countRoundTrips } from '../test/support/round-trips.ts'
import type { Benchmark, Figure } from './support/figures.ts'

function figuresOf({ what, statements, transactions, commands }: Cost): Figure[] {
  const bound = BOUNDS[what]
  return [
    {
      what: `${what}: to PostgreSQL`,
      value: statements,
      unit: 'statements',
      ...(bound && { bound: { atMost: bound.statements } }),
    },
    { what: `${what}: of them in transactions of several`, value: transactions, unit: 'transactions' },
    {
      what: `${what}: to Redis`,
      value: commands,
      unit: 'commands',
      ...(bound && { bound: { atMost: bound.commands } }),
    },
  ]
}

export const roundTrips: Benchmark = {
  question:
    'How often does the server ask PostgreSQL and Redis? Counted at the drivers, the message that began it included.',
  async run() {
    return (await countRoundTrips()).flatMap(figuresOf)
  },
}
