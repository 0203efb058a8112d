import type { Measured } from './fanout-measure.ts'
import type { SystemName } from './fanout-server.ts'

export const SYSTEMS: Record<SystemName, string> = {
  ws: 'plain `ws`',
  'ws-cork': '`ws` that corks',
  yoga: 'yoga + graphql-ws + RedisPubSub',
  'parley-redis': 'Parley over Redis',
  'parley-embedded': 'Parley, embedded',
}

/** How a load is called in tables. */
export function nameOf({ viewers, spaces, payload }: Pick<Measured, 'viewers' | 'spaces' | 'payload'>): string {
  const who = viewers.toLocaleString('en')
  const where = spaces === 1 ? who : `${who} in ${spaces} spaces`
  return payload === 'deltas' ? where : `${where}, ${payload === 'unread' ? '`unreadCount`' : 'tool calls'}`
}

/** A table of one figure: a row for each system, a column for each load. */
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

const rounded = (value: number) => (Number.isNaN(value) ? '–' : value.toFixed(value < 10 ? 1 : 0))

function rateOf({ messagesASecond, isAtLeast }: Measured): string {
  const thousands = `${rounded(messagesASecond / 1000)}k`
  return messagesASecond === 0 ? 'none' : isAtLeast ? `≥ ${thousands}` : thousands
}

/** The tables that the README quotes. */
export function tablesOf(all: readonly Measured[]): string {
  return [
    tableOf(all, 'messages a second, p99 ≤ 100 ms', rateOf),
    tableOf(all, 'CPU of a message at that rate, µs', ({ microsecondsOfCpu }) => rounded(microsecondsOfCpu)),
    tableOf(all, 'the same at 20 events a second', ({ microsecondsOfCpuPaced }) => rounded(microsecondsOfCpuPaced)),
    tableOf(all, 'p50 · p99 at 20 events a second, ms', ({ p50, p99 }) => `${rounded(p50)} · ${rounded(p99)}`),
    tableOf(
      all.filter(({ viewers }) => viewers >= 1000),
      'heap of a subscription, KiB',
      ({ kibibytesOfSubscription }) => rounded(kibibytesOfSubscription),
    ),
  ].join('\n\n')
}
