// npm run check:arrows: checks the imports against the rules in .dependency-cruiser.cjs, and whether the drawing of the layers
// in docs/architecture.md is up to date. With `-- --update`, writes the drawing. Examples and benchmarks are included only if
// their packages are installed, because the rules reject unresolved imports. A CI machine always installs these packages.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { FRONT_ENDS, install, isAvailable, runWith } from './packages.ts'

interface Module {
  source: string
  dependencies: { resolved: string; dependencyTypes: string[] }[]
}

/** Paths that the rules ignore, such as build results. */
const EXCLUDED: string[] = createRequire(import.meta.url)('../.dependency-cruiser.cjs').options.exclude.path
const PAGE = 'docs/architecture.md'
const DRAWING = /(?<=^<!-- drawn by npm run check:arrows -- --update -->\n).*?(?=^<!-- end -->$)/ms

const own = (['examples', 'bench'] as const).filter((folder) => isAvailable(folder, `the imports of ${folder}/`))
const left = FRONT_ENDS.filter((folder) => !isAvailable(folder, `the imports of ${folder}/`))
install('tools')
process.exitCode = check(process.argv.includes('--update'))

function check(isUpdate: boolean): number {
  const folder = mkdtempSync(path.join(tmpdir(), 'parley-arrows-'))
  try {
    const report = path.join(folder, 'report.json')
    const parts = ['src', 'client', 'web', 'test', 'scripts', 'vitest.config.ts', ...own]
    // This option replaces the one in the rules file.
    const excluded = [...EXCLUDED, ...left.map((folder) => `^examples/(test/)?${path.basename(folder)}`)].join('|')
    runWith('tools', 'depcruise', [...parts, '--exclude', excluded, '--output-type', 'json', '--output-to', report])
    if (runWith('tools', 'depcruise-fmt', ['--exit-code', '--output-type', 'err-long', report]) !== 0) return 1
    const { modules } = JSON.parse(readFileSync(report, 'utf8')) as { modules: Module[] }
    const page = readFileSync(PAGE, 'utf8')
    const drawn = page.replace(DRAWING, () => drawingOf(modules))
    if (isUpdate) writeFileSync(PAGE, drawn)
    else if (drawn !== page) {
      console.error(`The drawing of the layers in ${PAGE} is out of date: npm run check:arrows -- --update`)
      return 1
    }
    return 0
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Returns the imports between the parts of src/, without type-only imports and without those that follow from other imports. */
function drawingOf(modules: Module[]): string {
  const arrows = new Map<string, Set<string>>()
  for (const { source, dependencies } of modules) {
    const from = partOf(source)
    for (const { resolved, dependencyTypes } of dependencies) {
      const to = partOf(resolved)
      if (from === null || to === null || from === to || dependencyTypes.includes('type-only')) continue
      arrows.set(from, (arrows.get(from) ?? new Set()).add(to))
    }
  }
  const known = new Map<string, Set<string>>()
  function below(part: string): Set<string> {
    const found = known.get(part) ?? new Set([...(arrows.get(part) ?? [])].flatMap((next) => [next, ...below(next)]))
    known.set(part, found)
    return found
  }
  const lines = [...arrows.keys()].sort().map((from) => {
    const direct = [...(arrows.get(from) ?? [])]
    const kept = direct.filter((to) => !direct.some((other) => below(other).has(to)))
    return `  ${from} --> ${kept.sort().join(' & ')}\n`
  })
  return `\`\`\`mermaid\nflowchart TD\n${lines.join('')}\`\`\`\n`
}

/** Returns the folder of src/, or the file directly in it. */
function partOf(file: string): string | null {
  const part = /^src\/([^/.]+)/.exec(file)?.[1] ?? null
  return part === 'generated' ? null : part
}
