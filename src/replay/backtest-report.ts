import type { Backtest, Lane } from './backtest.ts'

/** Formats results as Markdown. For each recording, there is a table, followed by the differences and the checks. */
export function markdownOf(results: readonly Backtest[]): string {
  return results.map(sectionOf).join('\n\n')
}

function sectionOf({
  name,
  recorded,
  candidate,
  baseline,
  differences,
  missing,
  checks,
  notes,
  isPassed,
}: Backtest): string {
  const lines = [
    `## ${isPassed ? 'Passed' : 'Failed'}: ${cell(name)}`,
    '',
    baseline === null
      ? 'The replay without the change is equal to the recording.'
      : `The replay without the change differs in: ${baseline.kind}. ${baseline.where}. ${baseline.cause}`,
    '',
    '| agent | lane | woken | says | calls | tokens | cost | duration |',
    '|---|---|---|---|---|---|---|---|',
    ...recorded.flatMap((agent, index) => [rowOf(agent, 'recorded'), rowOf(candidate[index], 'candidate')]),
  ]
  if (differences.length > 0)
    lines.push(
      '',
      '| agent | what | recorded | candidate |',
      '|---|---|---|---|',
      ...differences.map(
        (one) => `| ${cell(one.agent)} | ${one.what} | ${cell(one.recorded)} | ${cell(one.candidate)} |`,
      ),
    )
  if (missing.length > 0) lines.push('', 'The recording lacks:', ...missing.map((one) => `- ${cell(one)}`))
  if (checks.length > 0)
    lines.push(
      '',
      ...checks.map(
        ({ name: check, failure }) =>
          `- [${failure === null ? 'x' : ' '}] ${cell(check)}${failure === null ? '' : `: ${cell(failure)}`}`,
      ),
    )
  if (notes.length > 0) lines.push('', ...notes.map((note) => `Note: ${note}`))
  return lines.join('\n')
}

function rowOf(agent: Lane[number] | undefined, lane: string): string {
  if (agent === undefined) return ''
  const { name, wokenBy, says, calls, tokens, cost, durationMs } = agent
  const usd = cost === null ? 'unknown' : `$${cost.toFixed(4)}`
  return `| ${cell(name)} | ${lane} | ${wokenBy.length} | ${says.length} | ${calls.length} | ${tokens} | ${usd} | ${(durationMs / 1000).toFixed(1)} s |`
}

const LONGEST_CELL = 300

/** Formats a text for a table cell: on one line, without characters that would end the cell. */
function cell(text: string): string {
  const line = text.replace(/\s+/g, ' ').replaceAll('|', '\\|')
  return line.length > LONGEST_CELL ? `${line.slice(0, LONGEST_CELL)}…` : line
}

/** Formats results as JUnit XML. Each recording is a suite, whose cases are the baseline and the checks. */
export function junitOf(results: readonly Backtest[]): string {
  const suites = results.map(({ name, baseline, missing, checks, differences }) => {
    const cases = [
      {
        name: 'the replay without the change is equal',
        failure: baseline === null ? null : `${baseline.kind}: ${baseline.where}. ${baseline.cause}`,
      },
      { name: 'the recording has everything', failure: missing.length === 0 ? null : missing.join('\n') },
      ...checks,
      ...(checks.length > 0
        ? []
        : [
            {
              name: 'the candidate is equal',
              failure:
                differences.length === 0
                  ? null
                  : differences
                      .map((one) => `${one.agent}, ${one.what}: ${one.recorded} → ${one.candidate}`)
                      .join('\n'),
            },
          ]),
    ]
    const failures = cases.filter(({ failure }) => failure !== null).length
    const lines = cases.map(({ name: one, failure }) =>
      failure === null
        ? `    <testcase classname="${xml(name)}" name="${xml(one)}"/>`
        : `    <testcase classname="${xml(name)}" name="${xml(one)}"><failure message="${xml(failure)}"/></testcase>`,
    )
    return `  <testsuite name="${xml(name)}" tests="${cases.length}" failures="${failures}">\n${lines.join('\n')}\n  </testsuite>`
  })
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join('\n')}\n</testsuites>\n`
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\n': '&#10;' }
const xml = (text: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: XML does not allow them
  text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f]/g, '').replace(/[&<>"\n]/g, (one) => ENTITIES[one] ?? one)
