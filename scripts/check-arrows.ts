// npm run check:arrows: checks the rules for imports in .dependency-cruiser.cjs. It includes examples and benchmarks if their packages are
// installed, because the rules refuse unresolved imports. A CI machine always installs them.
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
