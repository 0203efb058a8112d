// node scripts/generate-prisma.ts [--check]: writes src/generated/prisma from prisma/schema.prisma, together with the parts of
// Prisma and of its adapter for PGlite that run in production. These files are committed, because Prisma's command takes 290
// MB, and its client contains the query compilers of five databases, of which Parley uses one. The script does nothing if its
// sources are unchanged. --check writes nothing, and exits with 1 if the committed files do not match the schema.
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { install, runWith } from './packages.ts'

const ROOT = path.resolve(import.meta.dirname, '..')
const MODULES = path.join(ROOT, 'prisma/node_modules')
const GENERATED = path.join(ROOT, 'src/generated')
const CHECKSUM = path.join(GENERATED, 'checksum')
const RUNTIME = path.join(GENERATED, 'prisma-runtime')
const ADAPTER = path.join(GENERATED, 'pglite-prisma-adapter')

/** One hash of the schema, the versions of the generator's packages, and every generated file. */
function checksum(): string {
  const sources = ['prisma/schema.prisma', 'prisma/package-lock.json']
  const outputs = globSync('src/generated/**/*.{ts,mjs,mts}', { cwd: ROOT }).sort()
  const hash = createHash('sha256')
  for (const file of [...sources, ...outputs]) {
    hash.update(file.split(path.sep).join('/')).update(textOf(path.join(ROOT, file)))
  }
  return hash.digest('hex')
}

const isCurrent = existsSync(CHECKSUM) && readFileSync(CHECKSUM, 'utf8').trim() === checksum()

if (process.argv.includes('--check')) {
  if (!isCurrent) {
    console.error(
      'src/generated does not match prisma/schema.prisma: run `npm run generate`, and commit the files that it writes.',
    )
    process.exitCode = 1
  } else console.log('src/generated matches prisma/schema.prisma')
} else if (!isCurrent) {
  install('prisma')
  if (runWith('prisma', 'prisma', ['generate'], path.join(ROOT, 'prisma')) !== 0)
    throw new Error('prisma generate failed')
  copyRuntime()
  copyAdapter()
  writeFileSync(CHECKSUM, `${checksum()}\n`)
}

/** Copies Prisma's client runtime with PostgreSQL's query compiler, and makes the generated client import the copy. */
function copyRuntime(): void {
  const compiler = 'query_compiler_small_bg.postgresql'
  const files = ['client.mjs', 'client.d.mts', 'index-browser.mjs', 'index-browser.d.mts']
  files.push(`${compiler}.mjs`, `${compiler}.wasm-base64.mjs`)
  rmSync(RUNTIME, { recursive: true, force: true })
  mkdirSync(RUNTIME, { recursive: true })
  for (const file of files) {
    const text = textOf(path.join(MODULES, '@prisma/client/runtime', file))
    writeFileSync(path.join(RUNTIME, file), text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'))
  }
  copyFileSync(path.join(MODULES, '@prisma/client/LICENSE'), path.join(RUNTIME, 'LICENSE'))
  for (const file of globSync('prisma/**/*.ts', { cwd: GENERATED })) {
    const target = path.join(GENERATED, file)
    const runtime = path.relative(path.dirname(target), RUNTIME).split(path.sep).join('/')
    const text = readFileSync(target, 'utf8')
    writeFileSync(
      target,
      text.replace(/"@prisma\/client\/runtime\/([\w.-]+?)(\.mjs)?"/g, (_, name: string) => `"${runtime}/${name}.mjs"`),
    )
  }
}

/** Copies the adapter unchanged. As a dependency, the adapter would require @prisma/client with all query compilers. */
function copyAdapter(): void {
  rmSync(ADAPTER, { recursive: true, force: true })
  mkdirSync(ADAPTER, { recursive: true })
  const source = path.join(MODULES, 'pglite-prisma-adapter')
  for (const file of ['index.mjs', 'index.d.mts']) {
    writeFileSync(path.join(ADAPTER, file), textOf(path.join(source, 'dist', file)))
  }
  copyFileSync(path.join(source, 'README.md'), path.join(ADAPTER, 'README.md'))
  writeFileSync(`${ADAPTER}.ts`, "export { PrismaPGlite } from './pglite-prisma-adapter/index.mjs'\n")
}

/** Returns a file's text with line feeds, as Git checks it out. Some files of the packages have carriage returns. */
function textOf(file: string): string {
  return readFileSync(file, 'utf8').replaceAll('\r\n', '\n')
}
