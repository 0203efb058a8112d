// Reads vitest's JSON reports for steps.sh: `node report.mjs counts|files|names <report> [<report of the second attempt>]`.
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'

const [, , what, first, second] = process.argv
const resultsIn = (report) => JSON.parse(readFileSync(report, 'utf8')).testResults
const hasFailed = (file) => file.status === 'failed'

let files = resultsIn(first)
if (second !== undefined) files = [...files.filter((file) => !hasFailed(file)), ...resultsIn(second)]
const tests = files.flatMap((file) => file.assertionResults.map((test) => ({ ...test, file })))
const failed = tests.filter((test) => test.status === 'failed')
// A file that failed before its first test counts as one failure.
const broken = files.filter((file) => hasFailed(file) && file.assertionResults.length === 0)
const pathOf = (file) => relative(process.cwd(), file.name)

if (what === 'counts') {
  console.log(tests.filter((test) => test.status === 'passed').length, failed.length + broken.length)
} else if (what === 'files') {
  for (const file of files.filter(hasFailed)) console.log(pathOf(file))
} else {
  for (const test of failed) console.log(`  ${pathOf(test.file)} > ${test.fullName}`)
  for (const file of broken) console.log(`  ${pathOf(file)}`)
}
