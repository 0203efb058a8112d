import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Measured } from './fanout-measure.ts'
import type { SystemName } from './fanout-server.ts'
import { nameOf, SYSTEMS } from './fanout-tables.ts'

const RESULTS = path.resolve(import.meta.dirname, '../results')
const COLORS: Record<SystemName, string> = {
  ws: '#c3c7cb',
  'ws-log': '#9aa0a6',
  'ws-cork': '#5f6368',
  yoga: '#d9822b',
  'parley-redis': '#123a8c',
  'parley-embedded': '#2b7de9',
}
const BAR = 36
const GROUP = 6 * BAR + 30
const HEIGHT = 260
const TOP = 70

/** Draws the messages per second as a bar chart, with a group of bars for each load, in bench/results/fanout.svg. */
export async function writeChart(all: readonly Measured[]): Promise<void> {
  const loads = [...new Set(all.map(nameOf))]
  const most = Math.max(...all.map(({ messagesASecond }) => messagesASecond))
  const systems = Object.keys(SYSTEMS) as SystemName[]
  const bars = all.map((one) => {
    const x = 20 + loads.indexOf(nameOf(one)) * GROUP + systems.indexOf(one.system) * BAR
    const height = (one.messagesASecond / most) * HEIGHT
    const y = TOP + HEIGHT - height
    const label = `${Math.round(one.messagesASecond / 1000)}k`
    return `<rect x="${x}" y="${y.toFixed(1)}" width="${BAR - 6}" height="${height.toFixed(1)}" fill="${COLORS[one.system]}"/>
<text x="${x + (BAR - 6) / 2}" y="${(y - 4).toFixed(1)}" text-anchor="middle" font-size="10">${label}</text>`
  })
  const axis = loads.map(
    (load, index) =>
      `<text x="${20 + index * GROUP + 3 * BAR}" y="${TOP + HEIGHT + 20}" text-anchor="middle">${load}</text>`,
  )
  const legend = systems.map(
    (system, index) =>
      `<rect x="${20 + index * 215}" y="34" width="12" height="12" fill="${COLORS[system]}"/><text x="${38 + index * 215}" y="44">${SYSTEMS[system].replaceAll('`', '')}</text>`,
  )
  const width = 40 + loads.length * GROUP
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.max(width, 1320)}" height="${TOP + HEIGHT + 40}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="20" y="20" font-size="15">Messages a second from one process to the viewers of a space, p99 within 100 ms</text>
${[...legend, ...bars, ...axis].join('\n')}
</svg>
`
  await mkdir(RESULTS, { recursive: true })
  await writeFile(path.join(RESULTS, 'fanout.svg'), svg)
}
