import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Package {
  license?: string
  hasInstallScript?: boolean
  resolved?: string
  link?: boolean
}

const page = readFileSync('docs/dependencies.md', 'utf8')
const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}
const lockOf = (file: string) =>
  (JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, Package> }).packages
const packages = lockOf('package-lock.json')

test('every package in package.json is listed in docs/dependencies.md with its licence', () => {
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  const missing = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => {
    const installed = packages[`node_modules/${name}`]
    // A link points to a folder of this repository, which has its own entry.
    const { license = 'none' } = (installed?.link ? packages[installed.resolved ?? ''] : installed) ?? {}
    return !rows.some((row) => row.includes(`\`${name}\``) && row.includes(license))
  })
  expect(missing).toEqual([])
})

test('only the named packages run an install script', () => {
  const own = ['tools', 'examples', 'bench', 'prisma', 'docs'].map((folder) => lockOf(`${folder}/package-lock.json`))
  const scripted = [packages, ...own]
    .flatMap((locked) => Object.entries(locked))
    .filter(([path, { hasInstallScript }]) => path !== '' && hasInstallScript === true)
    .map(([path]) => path.replace(/^.*node_modules\//, ''))
  const named = page.slice(page.indexOf('## Scripts that run'))
  expect(scripted.filter((name) => !named.includes(`\`${name}\``))).toEqual([])
})
