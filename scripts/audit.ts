// npm run audit: lists known vulnerabilities of the runtime dependencies, from the registry's audit service. Exits with 1 if a
// vulnerability has severity high or critical, and with 2 if the service does not answer.
import { spawnSync } from 'node:child_process'

const { stdout } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { encoding: 'utf8', timeout: 60_000 })
interface Report {
  metadata?: { vulnerabilities: Record<string, number> }
  vulnerabilities?: Record<string, { severity: string; range: string }>
}
const report = parsed(stdout)
const counts = report?.metadata?.vulnerabilities
if (counts === undefined) {
  console.error('The audit service of the registry did not respond: the result is unknown.')
  process.exit(2)
}
for (const [name, { severity, range }] of Object.entries(report?.vulnerabilities ?? {}))
  console.log(`${severity}: ${name} ${range}`)
console.log(`${counts['total'] ?? 0} known vulnerabilities`)
process.exitCode = (counts['high'] ?? 0) + (counts['critical'] ?? 0) > 0 ? 1 : 0

function parsed(text: string): Report | null {
  try {
    return JSON.parse(text) as Report
  } catch {
    return null
  }
}
