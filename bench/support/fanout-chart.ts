import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Measured, SystemName } from './fanout-server.ts'

const RESULTS = path.resolve(import.meta.dirname, '../results')
const COLORS: Record<SystemName, string> = {
  ws: '#9aa0a6',
  yoga: '#d9822b',
  'parley-embedded': '#2b7de9',
  'parley-redis': '#123a8c',
}
const BAR = 44
const GROUP = 4 * BAR + 40
const HEIGHT = 260
const TOP = 70

/** Draws messages a second, a group of bars for each number of subscribers, to bench/results/fanout.svg. */
export async function writeChart(
  names: Record<SystemName, string>,
  subscribers: readonly number[],
  all: readonly Measured[],
): Promise<void> {
  const most = Math.max(...all.map(({ messagesASecond }) => messagesASecond))
  const systems = Object.keys(names) as SystemName[]
  const bars = all.map((one) => {
    const x = 20 + subscribers.indexOf(one.subscribers) * GROUP + systems.indexOf(one.system) * BAR
    const height = (one.messagesASecond / most) * HEIGHT
    const y = TOP + HEIGHT - height
    const label = `${Math.round(one.messagesASecond / 1000)}k`
    return `<rect x="${x}" y="${y.toFixed(1)}" width="${BAR - 6}" height="${height.toFixed(1)}" fill="${COLORS[one.system]}"/>
<text x="${x + (BAR - 6) / 2}" y="${(y - 4).toFixed(1)}" text-anchor="middle">${label}</text>`
  })
  const axis = subscribers.map(
    (count, index) =>
      `<text x="${20 + index * GROUP + 2 * BAR}" y="${TOP + HEIGHT + 20}" text-anchor="middle">${count} subscribers</text>`,
  )
  const legend = systems.map(
    (system, index) =>
      `<rect x="${20 + index * 160}" y="34" width="12" height="12" fill="${COLORS[system]}"/><text x="${38 + index * 160}" y="44">${names[system].replaceAll('`', '')}</text>`,
  )
  const width = 40 + subscribers.length * GROUP
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.max(width, 720)}" height="${TOP + HEIGHT + 40}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="20" y="20" font-size="15">Messages a second from one process</text>
${[...legend, ...bars, ...axis].join('\n')}
</svg>
`
  await mkdir(RESULTS, { recursive: true })
  await writeFile(path.join(RESULTS, 'fanout.svg'), svg)
}
