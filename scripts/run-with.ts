// node scripts/run-with.ts [--optional] <package> <command…>: runs a command with the programs of a package of this repository
// (`tools`, `examples`, `bench`, `prisma`, `docs`). Installs the package first if it is missing or outdated. With --optional,
// skips the command if the package is missing, except on a CI machine.
import { install, isAvailable, type OwnPackage, runWith } from './packages.ts'

const given = process.argv.slice(2)
const isOptional = given[0] === '--optional'
const [folder, command, ...options] = isOptional ? given.slice(1) : given
if (folder === undefined || command === undefined) {
  console.error('usage: node scripts/run-with.ts [--optional] <package> <command…>')
  process.exit(1)
}
const own = folder as OwnPackage
if (!isOptional || isAvailable(own, `${command} ${options.join(' ')}`)) {
  install(own)
  process.exitCode = runWith(own, command, options)
}
