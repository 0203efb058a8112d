import type { Measured } from './fanout-measure.ts'
import type { SystemName } from './fanout-server.ts'

export const SYSTEMS: Record<SystemName, string> = {
  ws: 'plain `ws`',
  'ws-log': 'plain `ws`, of events kept in Redis',
  'ws-cork': 'corked `ws`',
  yoga: 'yoga + graphql-ws + RedisPubSub',
  'parley-redis': 'Parley over Redis',
  'parley-embedded': 'Parley, embedded',
}

/** Returns the name of a load for tables. */
export function nameOf({ viewers, spaces, payload }: Pick<Measured, 'viewers' | 'spaces' | 'payload'>): string {
  const who = viewers.toLocaleString('en')
  const where = spaces === 1 ? who : `${who} in ${spaces} spaces`
  return payload === 'deltas' ? where : `${where}, ${payload === 'unread' ? '`unreadCount`' : 'tool calls'}`
}

/** Returns the table of one metric: a row for each system, a column for each load. */
function tableOf(all: readonly Measured[], title: string, textOf: (one: Measured) => string): string {
  const loads = [...new Set(all.map(nameOf))]
  const systems = (Object.keys(SYSTEMS) as SystemName[]).filter((name) => all.some(({ system }) => system === name))
  const rows = systems.map((system) => {
    const cells = loads.map((load) => {
      const one = all.find((candidate) => candidate.system === system && nameOf(candidate) === load)
      return one === undefined ? '' : textOf(one)
    })
    return `| ${SYSTEMS[system]} | ${cells.join(' | ')} |`
  })
  return [`| ${title} | ${loads.join(' | ')} |`, `|---|${loads.map(() => '---:').join('|')}|`, ...rows].join('\n')
}

function rounded(value: number): string {
  if (Number.isNaN(value)) return '–'
  return value === Number.POSITIVE_INFINITY ? 'never' : value.toFixed(value < 10 ? 1 : 0)
}

function rateOf({ messagesASecond, isAtLeast }: Measured): string {
  const thousands = `${rounded(messagesASecond / 1000)}k`
  return messagesASecond === 0 ? 'none' : isAtLeast ? `≥ ${thousands}` : thousands
}

/** Returns the tables for docs/speed.md: the rate of each system by load, and the cost with 1,000 subscribers in one space. */
export function summaryOf(all: readonly Measured[]): string {
  const some = all.filter(({ viewers, spaces }) => viewers === 1000 && spaces === 1)
  const rows = (Object.keys(SYSTEMS) as SystemName[]).flatMap((system) => {
    const one = some.find((candidate) => candidate.system === system)
    if (one === undefined) return []
    const { microsecondsOfCpu, microsecondsOfCpuPaced, p50, p99, kibibytesOfSubscription } = one
    const cells = [microsecondsOfCpu, microsecondsOfCpuPaced, p50, p99, kibibytesOfSubscription].map(rounded)
    return [`| ${SYSTEMS[system]} | ${cells.join(' | ')} |`]
  })
  return [
    'This table shows the highest rate at which 99 of 100 messages arrive within 100 ms. One process delivers to all subscribers, and each subscriber has',
    'its own operation. Publisher, server and subscribers are separate processes ([all figures](../bench/results/fanout.md),',
    '[chart](../bench/results/fanout.svg)):',
    '',
    tableOf(all, 'messages/s, by subscribers of a space', rateOf),
    '',
    'The cost of one message with 1,000 subscribers in one space, and its latency at 20 events/s, after a warm-up:',
    '',
    '| | CPU, µs | CPU at 20 events/s, µs | p50, ms | p99, ms | heap of a subscription, KiB |',
    '|---|---:|---:|---:|---:|---:|',
    ...rows,
  ].join('\n')
}

/** Returns all tables. */
export function tablesOf(all: readonly Measured[]): string {
  return [
    tableOf(all, 'messages a second, p99 ≤ 100 ms', rateOf),
    tableOf(all, 'CPU of a message at that rate, µs', ({ microsecondsOfCpu }) => rounded(microsecondsOfCpu)),
    tableOf(all, 'the same at 20 events a second', ({ microsecondsOfCpuPaced }) => rounded(microsecondsOfCpuPaced)),
    tableOf(
      all,
      'p50 · p99 at 20 events a second, once warm, ms',
      ({ p50, p99 }) => `${rounded(p50)} · ${rounded(p99)}`,
    ),
    tableOf(
      all.filter(({ viewers }) => viewers >= 1000),
      'heap of a subscription, KiB',
      ({ kibibytesOfSubscription }) => rounded(kibibytesOfSubscription),
    ),
  ].join('\n\n')
}
