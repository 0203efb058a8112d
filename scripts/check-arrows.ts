// npm run check:arrows: imports follow the arrows of .dependency-cruiser.cjs. Examples and benchmarks are looked at where their packages are
// installed, since an import that cannot be resolved counts as wrong; on a CI machine they always are.
import { install, isAvailable, runWith } from './packages.ts'

const own = (['examples', 'bench'] as const).filter((folder) => isAvailable(folder, `the imports of ${folder}/`))
install('tools')
process.exitCode = runWith('tools', 'depcruise', [
  'src',
  'client',
  'web',
  'test',
  'scripts',
  'vitest.config.ts',
  ...own,
])
