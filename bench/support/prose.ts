const WORDS = (
  'the frost will come before morning so cover young beans and tomatoes with fleece from the shed while kale likes cold ' +
  'nights because sugar in its leaves keeps ice away and nobody has to carry water until the sun is back over the wall'
).split(' ')

type Random = () => number

/**
 * Generates Markdown like that of agents, in pieces of about one token: paragraphs, lists and code. Equal seeds give equal
 * texts.
 */
export function proseOf(seed: number, tokens: number): string[] {
  const random = randomOf(seed)
  const pieces: string[] = []
  while (pieces.length < tokens) {
    const kind = random()
    pieces.push(...(kind < 0.7 ? paragraph(random) : kind < 0.9 ? list(random) : code(random)))
  }
  return pieces.slice(0, tokens)
}

function paragraph(random: Random): string[] {
  return [...Array.from({ length: 25 + Math.floor(random() * 50) }, () => `${word(random)} `), 'then.', '\n\n']
}

function list(random: Random): string[] {
  const items = Array.from({ length: 3 + Math.floor(random() * 4) }, () => [
    '- ',
    ...Array.from({ length: 4 + Math.floor(random() * 8) }, () => `${word(random)} `),
    '\n',
  ])
  return [...items.flat(), '\n']
}

function code(random: Random): string[] {
  const lines = Array.from({ length: 2 + Math.floor(random() * 5) }, () => ['water(', word(random), ')\n'])
  return ['```\n', ...lines.flat(), '```', '\n\n']
}

function word(random: Random): string {
  const chosen = WORDS[Math.floor(random() * WORDS.length)] ?? ''
  const look = random()
  return look < 0.05 ? `**${chosen}**` : look < 0.08 ? `\`${chosen}\`` : chosen
}

/** Returns a generator of numbers from 0 to 1. Equal seeds give equal numbers (mulberry32). */
function randomOf(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
