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
    'How many statements and commands does the server send to PostgreSQL and Redis? Counted at the drivers, including the first message.',
  async run() {
    return (await countRoundTrips()).flatMap(figuresOf)
  },
}
