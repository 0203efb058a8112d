// npm run check:words: finds phrases that the project no longer uses, in comments, strings, JSX text and Markdown.
// `-- --list [path …]` prints each place; `-- --update` lowers the baseline after a rewrite, or creates it if the file was deleted.
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { findings, proseOf } from './words.ts'

/** How many findings each file may still have. Counts only go down; a file without an entry may have none. */
const BASELINE = 'scripts/words-baseline.json'
const FILES = [
  '{src,client,web,scripts,bench,examples,test}/**/*.{ts,tsx}',
  'prisma/schema.prisma',
  'docs/**/*.md',
  '*.md',
  '*/README.md',
]
const EXCLUDED = [
  '**/node_modules/**',
  '**/{generated,__generated__,dist}/**',
  'docs/decisions/archive/**',
  'docs/{public,.vitepress}/**',
  'scripts/words.ts',
]

const isUpdate = process.argv.includes('--update')
const isList = process.argv.includes('--list')
const paths = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))

const counts: Record<string, number> = {}
const places: Record<string, string[]> = {}
for (const path of globSync(FILES, { exclude: EXCLUDED })) {
  const file = path.replaceAll('\\', '/')
  const found = proseOf(file, readFileSync(file, 'utf8')).flatMap(({ line, text, kind }) =>
    findings(text, kind).map((finding) => `${file}:${line}: ${finding}`),
  )
  if (found.length > 0) [counts[file], places[file]] = [found.length, found]
}

if (isList) {
  const isAsked = (file: string) => paths.length === 0 || paths.some((path) => file.startsWith(path))
  for (const file of Object.keys(places).filter(isAsked)) console.log(places[file]?.join('\n'))
  process.exit()
}

const readBaseline = (): Record<string, number> => JSON.parse(readFileSync(BASELINE, 'utf8'))
if (isUpdate) {
  const former = existsSync(BASELINE) ? readBaseline() : counts
  const lowered = Object.entries(counts)
    .map(([file, count]) => [file, Math.min(count, former[file] ?? 0)] as const)
    .filter(([, count]) => count > 0)
    .sort(([one], [other]) => (one < other ? -1 : 1))
  writeFileSync(BASELINE, `${JSON.stringify(Object.fromEntries(lowered), null, 2)}\n`)
}
const baseline = readBaseline()

const tooMany = Object.keys(counts).filter((file) => (counts[file] ?? 0) > (baseline[file] ?? 0))
for (const file of tooMany) {
  console.error(`${file}: ${counts[file]} findings, ${baseline[file] ?? 0} allowed. Rewrite the new ones:`)
  console.error(places[file]?.join('\n'))
}
const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
const allowed = Object.values(baseline).reduce((sum, count) => sum + count, 0)
console.log(`${total} findings, ${allowed} allowed by ${BASELINE}`)
if (total < allowed && tooMany.length === 0) console.log('Lower the baseline: npm run check:words -- --update')
process.exitCode = tooMany.length === 0 ? 0 : 1
