/** The maximum number of characters in a line of an export. The longest lines are steps with their complete input. */
const LONGEST_LINE = 16 * 1024 * 1024

/**
 * Yields the lines of a UTF-8 stream without the line breaks. Holds only one line in memory.
 * @throws Error if a line is too long
 */
export async function* boundedLines(
  stream: AsyncIterable<Buffer | string>,
  longest = LONGEST_LINE,
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let parts: string[] = []
  let length = 0
  let number = 1
  const add = (part: string) => {
    length += part.length
    if (length > longest)
      throw new Error(`Line ${number} is longer than ${longest} characters: the file is not a space export.`)
    parts.push(part)
  }
  const take = (): string => {
    const line = parts.join('')
    parts = []
    length = 0
    number += 1
    return line.endsWith('\r') ? line.slice(0, -1) : line
  }
  for await (const chunk of stream) {
    const pieces = (typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })).split('\n')
    const last = pieces.pop() ?? ''
    for (const piece of pieces) {
      add(piece)
      yield take()
    }
    add(last)
  }
  add(decoder.decode())
  if (length > 0) yield take()
}
