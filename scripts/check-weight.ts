// npm run check:weight: compares the size of `npm ci` and of a production install with their limits. A decision record is needed to
// raise a limit.
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '..')
const MOST_MB = 550
const MOST_PACKAGES = 400
const MOST_PRODUCTION_MB = 260
/** A production install must not contain generators, compilers, or query compilers of other databases. */
const NOT_IN_PRODUCTION = /^(prisma|typescript|@prisma\/(client|studio-core|dev|engines)|@typescript\/.*)$/

interface Package {
  dev?: boolean
  devOptional?: boolean
  link?: boolean
}
const { packages } = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, Package>
}
const locked = Object.entries(packages).filter(([folder]) => folder.startsWith('node_modules/'))
const production = locked.filter(([, { dev, link }]) => !dev && !link)
const nameOf = (folder: string) => folder.replace(/^.*node_modules\//, '')

// Vitest and Vite store compiled files in `.vite…`; `npm ci` does not install them.
const megabytes = Math.ceil(bytesOf(path.join(ROOT, 'node_modules'), /^\.vite/) / 2 ** 20)
const productionBytes = production.map(([folder]) => bytesOf(path.join(ROOT, folder), /^node_modules$/))
const cache = bytesOf(path.join(ROOT, 'node_modules/.cache'))
const productionMegabytes = Math.ceil((productionBytes.reduce((sum, bytes) => sum + bytes, 0) + cache) / 2 ** 20)
const heavy = production.map(([folder]) => nameOf(folder)).filter((name) => NOT_IN_PRODUCTION.test(name))

// The lock file also lists binaries for other platforms, which are not installed.
const installed = locked.filter(([folder]) => existsSync(path.join(ROOT, folder)))
console.log(`node_modules: ${megabytes} MB of ${MOST_MB}, ${installed.length} packages of ${MOST_PACKAGES}`)
console.log(`in production: ${productionMegabytes} MB of ${MOST_PRODUCTION_MB}, ${production.length} packages`)
const problems = [
  megabytes > MOST_MB && `node_modules takes more than ${MOST_MB} MB`,
  installed.length > MOST_PACKAGES && `npm ci installs more than ${MOST_PACKAGES} packages`,
  productionMegabytes > MOST_PRODUCTION_MB && `production packages take more than ${MOST_PRODUCTION_MB} MB`,
  heavy.length > 0 && `a production install would include ${heavy.join(', ')}`,
].filter((problem) => problem !== false)
for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

/** Returns the bytes of a folder on disk, as `du` counts them, without the subfolders whose names match `except`. */
function bytesOf(folder: string, except?: RegExp): number {
  if (!existsSync(folder)) return 0
  const seen = new Set<number>()
  const visit = (file: string): number => {
    const { blocks, size, ino, nlink } = lstatSync(file)
    if (nlink > 1 && seen.has(ino)) return 0
    seen.add(ino)
    return (blocks ?? size / 512) * 512
  }
  const walk = (directory: string): number =>
    readdirSync(directory, { withFileTypes: true }).reduce((sum, entry) => {
      if (except?.test(entry.name)) return sum
      const child = path.join(directory, entry.name)
      return sum + visit(child) + (entry.isDirectory() ? walk(child) : 0)
    }, 0)
  return visit(folder) + walk(folder)
}
