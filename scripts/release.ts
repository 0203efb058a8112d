import { readFileSync } from 'node:fs'
import path from 'node:path'

/**
 * Returns the version in package.json, which is one folder above scripts/ in a clone, and two folders above dist/scripts/ in
 * the package.
 */
export function releaseOf(): string {
  const root = path.resolve(import.meta.dirname, import.meta.filename.endsWith('.ts') ? '..' : '../..')
  return (JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string }).version
}
