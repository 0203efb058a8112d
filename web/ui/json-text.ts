export interface JsonLimits {
  characters: number
  /** The depth of nested lists and objects. Deeper ones are shown as `…`. */
  depth: number
  /** The number of spaces for each level; 0 writes one line. */
  indent: number
}

const DEFAULTS: JsonLimits = { characters: 20_000, depth: 60, indent: 2 }
/** Deeper levels get no further indentation, so that the length of the text stays proportional to the value. */
const INDENTED_LEVELS = 30

/**
 * Writes a value as JSON within limits, which also limit the work.
 * @returns the text, and whether parts were left out
 */
export function jsonText(value: unknown, limits: Partial<JsonLimits> = {}): { text: string; isCut: boolean } {
  const { characters, depth, indent } = { ...DEFAULTS, ...limits }
  const colon = indent === 0 ? ':' : ': '
  let text = ''
  let isCut = false

  function write(item: unknown, level: number): void {
    if (typeof item === 'string') writeString(item)
    else if (typeof item !== 'object' || item === null) text += JSON.stringify(item) ?? 'null'
    else if (Array.isArray(item)) writeEntries('[]', item.length, level, (at) => write(item[at], level + 1))
    else {
      const names = Object.keys(item)
      writeEntries('{}', names.length, level, (at) => {
        const name = names[at] ?? ''
        writeString(name)
        text += colon
        write((item as Record<string, unknown>)[name], level + 1)
      })
    }
  }

  function writeEntries(brackets: string, count: number, level: number, writeEntry: (at: number) => void): void {
    text += brackets[0]
    for (let at = 0; at < count; at += 1) {
      if (at > 0) text += ','
      breakLine(level + 1)
      if (level >= depth || text.length >= characters) {
        cut()
        break
      }
      writeEntry(at)
    }
    if (count > 0) breakLine(level)
    text += brackets[1]
  }

  function breakLine(level: number): void {
    if (indent > 0) text += `\n${' '.repeat(indent * Math.min(level, INDENTED_LEVELS))}`
  }

  function writeString(string: string): void {
    const room = Math.max(0, characters - text.length)
    text += JSON.stringify(string.slice(0, room))
    if (string.length > room) cut()
  }

  function cut(): void {
    isCut = true
    text += '…'
  }

  write(value, 0)
  return { text, isCut }
}

/** Returns whether two values are equal as JSON, at any depth. */
export function isSameJson(one: unknown, other: unknown): boolean {
  const pairs: [unknown, unknown][] = [[one, other]]
  for (let pair = pairs.pop(); pair !== undefined; pair = pairs.pop()) {
    const [left, right] = pair
    if (left === right) continue
    if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false
    const names = Object.keys(left)
    if (Array.isArray(left) !== Array.isArray(right) || names.length !== Object.keys(right).length) return false
    for (const name of names) {
      if (!Object.hasOwn(right, name)) return false
      pairs.push([(left as Record<string, unknown>)[name], (right as Record<string, unknown>)[name]])
    }
  }
  return true
}
