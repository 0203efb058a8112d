// Reads vitest's JSON reports for .ci/steps.sh: `node scripts/test-report.ts counts|files|names <report> [<report of a second
// attempt>]`.
import { readFileSync } from 'node:fs'
import path from 'node:path'

interface FileResult {
  name: string
  status: 'passed' | 'failed'
  assertionResults: { status: string; fullName: string }[]
}

const [what, first, second] = process.argv.slice(2)
if (first === undefined) throw new Error('Pass the file of a test report as the argument.')

const resultsIn = (report: string) =>
  (JSON.parse(readFileSync(report, 'utf8')) as { testResults: FileResult[] }).testResults
const hasFailed = (file: FileResult) => file.status === 'failed'
const pathOf = (file: FileResult) => path.relative(process.cwd(), file.name)

let files = resultsIn(first)
// The second attempt runs only the files that failed.
if (second !== undefined) files = [...files.filter((file) => !hasFailed(file)), ...resultsIn(second)]

const tests = files.flatMap((file) =>
  file.assertionResults.map(({ status, fullName }) => ({ status, name: `${pathOf(file)} > ${fullName}` })),
)
// A file that failed before its first test counts as one failure.
const failures = [
  ...tests.filter(({ status }) => status === 'failed').map(({ name }) => name),
  ...files.filter((file) => hasFailed(file) && file.assertionResults.length === 0).map(pathOf),
]

if (what === 'counts') console.log(tests.filter(({ status }) => status === 'passed').length, failures.length)
else for (const line of what === 'files' ? files.filter(hasFailed).map(pathOf) : failures) console.log(line)
