/** Avatars of people are round with warm colours; those of agents are square with cool ones. The hue depends on the id. */
export function Avatar({ entity, size = 32 }: { entity: { id: string; name: string; kind: string }; size?: number }) {
  const isAgent = entity.kind === 'AGENT'
  const [from, range] = isAgent ? [165, 150] : [5, 85]
  const hue = from + Math.round(shareOf(entity.id) * range)
  return (
    <span
      className={`avatar ${isAgent ? 'agent' : 'human'}`}
      style={{ '--hue': hue, '--size': `${size}px` } as React.CSSProperties}
      aria-hidden="true"
    >
      {initialsOf(entity.name)}
    </span>
  )
}

function initialsOf(name: string): string {
  const words = name.trim().split(/\s+/)
  const letters = words.length > 1 ? [words[0], words.at(-1)] : [words[0]]
  return letters.map((word = '') => [...word][0]?.toUpperCase() ?? '').join('')
}

/** Returns a number from 0 to 1 for an id. Ids created one after the other get distant numbers. */
function shareOf(id: string): number {
  let hash = 2_166_136_261
  for (const letter of id) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 16_777_619)
  hash = Math.imul(hash ^ (hash >>> 15), 2_246_822_507)
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32
}
