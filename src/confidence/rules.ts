/** What the rules are asked about: which spaces are confidential now, and which humans are in them now. */
export interface World {
  isConfidential(spaceId: string): boolean
  humansOf(spaceId: string): ReadonlySet<string>
}

/** Why words may not go to a space: those humans there do not belong where the words come from. */
export interface Obstacle {
  fromId: string
  humanIds: string[]
}

/**
 * The rules of confidential spaces, each a pure function of marks, askers and who is where. A label is what `labelOf` says of marks:
 * the confidential spaces that something comes from. Everything that carries words asks them (engine.md, "Confidential spaces").
 */
export interface Rules {
  /** Of the spaces that something may come from, those that count. */
  labelOf(spaceIds: readonly string[], world: World): string[]
  /** Why what has this label may not be said in the space; null where it may. */
  obstacle(label: readonly string[], spaceId: string, world: World): Obstacle | null
  /** Whether what has this label may be given to what is outside the server. */
  mayLeave(label: readonly string[], tool: { mayReceiveConfidential: boolean }): boolean
  /** Whether a human may hear what has this label: an approver, or who reads a reason. */
  mayHear(label: readonly string[], humanId: string, world: World): boolean
  /** Whether a run that works in this space, or in none, is shown what its mind kept with this label. */
  mayRecall(label: readonly string[], worksInId: string | null, world: World): boolean
  /** Whether a run that works for these humans may enter, read and post in the space. */
  mayEnter(askers: readonly string[], spaceId: string, world: World): boolean
  /** Whether a run that works for these humans is told description and members of the space, and its name even where it works for nobody. */
  mayKnow(askers: readonly string[], spaceId: string, world: World): boolean
  /** Whether a run with the label `own` is told more of another run, with the label `other`, than that there is one. */
  mayCompare(other: readonly string[], own: readonly string[]): boolean
  /** Whether events with these labels may be thought about in one cycle. */
  belongTogether(one: readonly string[], other: readonly string[]): boolean
}

export const RULES: Rules = {
  labelOf: (spaceIds, world) => spaceIds.filter((id) => world.isConfidential(id)),
  obstacle(label, spaceId, world) {
    for (const fromId of label) {
      if (fromId === spaceId) continue
      const heard = world.humansOf(fromId)
      const humanIds = [...world.humansOf(spaceId)].filter((id) => !heard.has(id))
      if (humanIds.length > 0) return { fromId, humanIds }
    }
    return null
  },
  mayLeave: (label, { mayReceiveConfidential }) => label.length === 0 || mayReceiveConfidential,
  mayHear: (label, humanId, world) => label.every((id) => world.humansOf(id).has(humanId)),
  mayRecall(label, worksInId, world) {
    if (label.length === 0) return true
    return worksInId !== null && world.isConfidential(worksInId) && RULES.obstacle(label, worksInId, world) === null
  },
  mayEnter(askers, spaceId, world) {
    if (!world.isConfidential(spaceId)) return true
    const members = world.humansOf(spaceId)
    return askers.every((id) => members.has(id))
  },
  mayKnow(askers, spaceId, world) {
    if (!world.isConfidential(spaceId)) return true
    return askers.length > 0 && RULES.mayEnter(askers, spaceId, world)
  },
  mayCompare: (other, own) => other.every((id) => own.includes(id)),
  belongTogether: (one, other) => one.length === other.length && one.every((id) => other.includes(id)),
}
