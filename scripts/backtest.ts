// parley backtest <file>… --set agent.<id or name>.<field>=<value>…: replays recordings with changed agents, and compares the
// results with the recorded ones. Exit code 0: every check holds. 1: a check fails, or the replay without the change differs.
// 2: the input cannot be used.
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { oneLine } from '../src/lib/json.ts'
import { createModelRegistry } from '../src/models/registry.ts'
import { type Backtest, backtest, readChanges, readChecks, readResults } from '../src/replay/backtest.ts'
import { junitOf, markdownOf } from '../src/replay/backtest-report.ts'
import { UnusableRecordingError } from '../src/replay/recording.ts'
import { openRecording } from '../src/replay/replay.ts'
import { BACKTEST_OPTIONS } from './command-options.ts'

const { values, positionals } = parseArgs({ allowPositionals: true, options: BACKTEST_OPTIONS })
try {
  const { models: kind = 'real' } = values
  if (kind !== 'real' && kind !== 'recorded')
    throw new UnusableRecordingError(`--models must be real or recorded, not ${oneLine(kind)}.`)
  const { modelProviders } = readConfig({ ...process.env, DATA_DIR: process.env['DATA_DIR'] ?? '.parley' })
  const registry = createModelRegistry({ providers: modelProviders, demoTokensPerSecond: 0 })
  const text = values.checks === undefined ? null : readFileSync(values.checks, 'utf8')
  const checks = text === null ? [] : readChecks(text)
  const given = text === null ? [] : readResults(text)
  const results: Backtest[] = []
  for (const file of positionals) {
    const recording = await openRecording(file)
    const changes = readChanges(values.set ?? [], recording, (path) => readFileSync(path, 'utf8'))
    const models = kind === 'recorded' ? null : registry
    results.push(await backtest(recording, { changes, checks, results: given, models, judge: values.judge ?? null }))
  }
  const report = markdownOf(results)
  console.log(report)
  if (values.markdown !== undefined) writeFileSync(values.markdown, `${report}\n`)
  if (values.junit !== undefined) writeFileSync(values.junit, junitOf(results))
  process.exit(results.every(({ isPassed }) => isPassed) ? 0 : 1)
} catch (error) {
  console.error(error instanceof UnusableRecordingError ? error.message : oneLine(messageOf(error)))
  process.exit(2)
}
