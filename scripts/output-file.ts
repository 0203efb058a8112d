import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/**
 * Writes lines to a file that only its owner can read, and creates its folder. The lines go to a temporary file beside it, which replaces the file when
 * it is complete, so an existing file stays unchanged until then and after an error. Devices and pipes are written directly.
 */
export async function writeLines(file: string, lines: AsyncIterable<string>): Promise<void> {
  const existing = await stat(file).catch(() => null)
  if (existing !== null && !existing.isFile() && !existing.isDirectory())
    return pipeline(Readable.from(withBreaks(lines)), createWriteStream(file))
  await mkdir(dirname(file), { recursive: true })
  const draft = `${file}.${randomBytes(6).toString('hex')}.part`
  try {
    const output = createWriteStream(draft, { flags: 'wx', mode: 0o600, flush: true })
    await pipeline(Readable.from(withBreaks(lines)), output)
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

export async function* withBreaks(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${line}\n`
}
