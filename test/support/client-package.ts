import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const ROOT = path.resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

/**
 * Creates an empty project with the packed client and its dependencies and peers, which are copied from this project. The
 * caller removes it.
 */
export async function projectWithClient(beside: string[]): Promise<{ folder: string; archive: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'parley-package-'))
  const modules = path.join(folder, 'node_modules')
  await mkdir(path.join(modules, 'parley-client'), { recursive: true })
  // `npm ci` has compiled the client, so the packed files are those that the examples and other tests use.
  const options = ['--json', '--ignore-scripts', '--pack-destination', folder]
  const { stdout } = await run('npm', ['pack', path.join(ROOT, 'client'), ...options])
  const packed: unknown = JSON.parse(stdout)
  const [{ filename } = { filename: '' }] = Object.values(packed as Record<string, { filename: string }>)
  const archive = path.basename(filename)
  await run('tar', [
    '-xzf',
    path.join(folder, archive),
    '-C',
    path.join(modules, 'parley-client'),
    '--strip-components=1',
  ])
  await writeFile(path.join(folder, 'package.json'), '{ "type": "module" }')
  for (const name of beside) await symlink(path.join(ROOT, 'node_modules', name), path.join(modules, name))
  return { folder, archive }
}

/** Returns the compiler's errors in these files of a project; '' if there are none. */
export async function compiled(folder: string, files: Record<string, string>, types: string[] = []): Promise<string> {
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text)
  const compilerOptions = {
    strict: true,
    noEmit: true,
    module: 'nodenext',
    target: 'es2024',
    lib: ['es2024', 'dom'],
    types,
    jsx: 'react-jsx',
  }
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: Object.keys(files) }))
  return run(path.join(ROOT, 'node_modules/.bin/tsc'), ['-p', folder]).then(
    () => '',
    ({ stdout }: { stdout: string }) => stdout,
  )
}
