// npm run setup -- examples bench: installs the packages of these folders. `npm ci` at the root does not install them.
import { existsSync } from 'node:fs'
import path from 'node:path'
import { install, type OwnPackage } from './packages.ts'

const folders = process.argv.slice(2)
const isPackage = (folder: string) => existsSync(path.resolve(import.meta.dirname, '..', folder, 'package-lock.json'))
const unknown = folders.find((folder) => !isPackage(folder))
if (folders.length === 0 || unknown !== undefined) {
  console.error(unknown === undefined ? 'usage: npm run setup -- <folder…>' : `${unknown}/ has no packages of its own`)
  process.exit(1)
}
for (const folder of folders) install(folder as OwnPackage)
