import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Package {
  license?: string
  hasInstallScript?: boolean
}

const page = readFileSync('docs/dependencies.md', 'utf8')
const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Package> }

test('every package that package.json names stands in docs/dependencies.md, with its licence', () => {
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  const missing = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => {
    const { license = 'none' } = packages[`node_modules/${name}`] ?? {}
    return !rows.some((row) => row.includes(`\`${name}\``) && row.includes(license))
  })
  expect(missing).toEqual([])
})

test('no package runs a script at an install but those that are named there', () => {
  const scripted = Object.entries(packages)
    .filter(([path, { hasInstallScript }]) => path !== '' && hasInstallScript === true)
    .map(([path]) => path.replace(/^.*node_modules\//, ''))
  const named = page.slice(page.indexOf('## Scripts'))
  expect(scripted.filter((name) => !named.includes(`\`${name}\``))).toEqual([])
})
