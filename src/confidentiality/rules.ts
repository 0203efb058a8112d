/** The input of the rules: the spaces that are currently confidential, and their human members. */
export interface World {
  isConfidential(spaceId: string): boolean
  humansOf(spaceId: string): ReadonlySet<string>
}

/**
 * Why content may not be posted in a space. These members of the space are not members of the space from which the
 * content comes.
 */
export interface Obstacle {
  fromId: string
  humanIds: string[]
}

/**
 * The rules of confidential spaces as pure functions of marks, requesters and memberships. A label is the result of
 * `labelOf`: the confidential spaces from which content comes. These rules apply wherever content moves (engine.md,
 * "Confidential spaces").
 */
export interface Rules {
  /** Returns the source spaces that are confidential. */
  labelOf(spaceIds: readonly string[], world: World): string[]
  /** Returns why content with this label may not be posted in the space; null if it may be posted. */
  obstacle(label: readonly string[], spaceId: string, world: World): Obstacle | null
  /** Whether content with this label may be sent to another server. */
  mayLeave(label: readonly string[], tool: { mayReceiveConfidential: boolean }): boolean
  /** Whether a human, such as an approver, may read content with this label. */
  mayHear(label: readonly string[], humanId: string, world: World): boolean
  /**
   * Whether a run that works in this space may see notes of its agent with this label. The space is null for a run
   * without a space.
   */
  mayRecall(label: readonly string[], worksInId: string | null, world: World): boolean
  /** Whether a run with these requesters may enter, read and post in the space. */
  mayEnter(askers: readonly string[], spaceId: string, world: World): boolean
  /**
   * Whether a run with these requesters may see the description and members of the space. A run without requesters
   * may see only the name.
   */
  mayKnow(askers: readonly string[], spaceId: string, world: World): boolean
  /**
   * Whether a run with the label `own` may see the details of a run with the label `other`; otherwise, it only sees
   * that the other run exists.
   */
  mayCompare(other: readonly string[], own: readonly string[]): boolean
  /** Whether events with these labels may be processed in one think cycle. */
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
