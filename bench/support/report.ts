import { mkdir, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { type BenchmarkOptions, type Figure, holds, type Result } from './figures.ts'

const RESULTS = path.resolve(import.meta.dirname, '../results')
const SPEED = path.resolve(import.meta.dirname, '../../docs/speed.md')

/** Prints a benchmark's results and, unless it was a quick run, writes them as JSON and Markdown to bench/results. */
export async function report(
  name: string,
  question: string,
  { figures, tables, data, summary }: Result,
  { quick }: BenchmarkOptions,
): Promise<void> {
  const machine = {
    cores: os.availableParallelism(),
    cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
    node: process.version,
    // The load average before the end. If it exceeds the number of cores, the benchmark or other programs saturated the
    // machine.
    load: os.loadavg()[0] ?? Number.NaN,
  }
  const areSeveral = figures.some(({ runs }) => runs !== undefined)
  const markdown = [
    `# ${name}`,
    '',
    question,
    '',
    ...(tables === undefined ? [] : [tables, '']),
    `| what | figure |${areSeveral ? ' each run |' : ''} bound | |`,
    `|---|---:|${areSeveral ? '---:|' : ''}---:|---|`,
    ...figures.map((figure) => rowOf(figure, areSeveral)),
    '',
    `Measured on ${machine.cores} cores of ${machine.cpu}, Node ${machine.node}, load average ${machine.load.toFixed(1)} at the end. References without a source were measured in the same run.`,
    '',
  ].join('\n')
  console.log(markdown)
  if (quick) return
  await mkdir(RESULTS, { recursive: true })
  await writeFile(path.join(RESULTS, `${name}.md`), markdown)
  await writeFile(path.join(RESULTS, `${name}.json`), `${JSON.stringify({ name, machine, figures, data }, null, 2)}\n`)
  if (summary !== undefined) await writeSummary(name, summary)
}

/**
 * Replaces the text between `<!-- bench <name> -->` and `<!-- end of <name> -->` in docs/speed.md, so that the page quotes the
 * last run.
 */
async function writeSummary(name: string, text: string): Promise<void> {
  const [begin, end] = [`<!-- bench ${name} -->`, `<!-- end of ${name} -->`]
  const page = await readFile(SPEED, 'utf8')
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/speed.md has no section for ${name}: ${begin} … ${end}`)
  await writeFile(SPEED, `${page.slice(0, from + begin.length)}\n${text}\n${page.slice(to)}`)
}

function rowOf(figure: Figure, areSeveral: boolean): string {
  const { what, value, unit, runs } = figure
  const eachRun = areSeveral ? ` ${runs?.map(numberOf).join(', ') ?? ''} |` : ''
  return `| ${what} | ${numberOf(value)} ${unit} |${eachRun} ${boundOf(figure)} | ${verdictOf(figure)} |`
}

const numberOf = (value: number) => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)

function boundOf({ bound, unit }: Figure): string {
  if (bound === undefined) return ''
  const rounded = (value: number) => Number(value.toPrecision(4))
  return 'atMost' in bound ? `≤ ${rounded(bound.atMost)} ${unit}` : `≥ ${rounded(bound.atLeast)} ${unit}`
}

function verdictOf(figure: Figure): string {
  const kept = holds(figure)
  return kept === null ? `reference${figure.source ? `: ${figure.source}` : ''}` : kept ? 'holds' : 'MISSED'
}
