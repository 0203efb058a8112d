import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Reads a setting that is JSON, or `file:` followed by the path of a JSON file. A fault never contains the value,
 * because the value can be secret.
 */
export function readJsonSetting(text: string): { type: 'value'; value: unknown } | { type: 'fault'; fault: string } {
  const isFile = text.startsWith('file:')
  try {
    const json = isFile ? readFileSync(pathOf(text), 'utf8') : text
    return { type: 'value', value: JSON.parse(json.replace(/^\uFEFF/, '')) }
  } catch (error) {
    if (error instanceof SyntaxError)
      return { type: 'fault', fault: isFile ? 'the file does not contain JSON' : 'must be JSON' }
    const code = (error as { code?: unknown }).code
    return { type: 'fault', fault: `the file cannot be read${typeof code === 'string' ? ` (${code})` : ''}` }
  }
}

/** Returns the path of a file. `file:///etc/x.json` is a URL. `file:x.json` and `file:/etc/x.json` contain paths. */
function pathOf(text: string): string {
  return text.startsWith('file://') ? fileURLToPath(text) : text.slice('file:'.length)
}
