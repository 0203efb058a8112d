import { type Marks, marksOf, marksTogether, union } from '../../src/confidentiality/marks.ts'
import type { Rules, World } from '../../src/confidentiality/rules.ts'

/** Violations of the rules. */
export interface Betrayal {
  step: number
  what: string
}

/**
 * The secret of a space for a continuous period in which the space is confidential. Removing confidentiality frees its content.
 */
type Canary = `${string}@${number}`

/** A message or a stored row: its marks, and what its content really comes from. */
interface Words extends Marks {
  canaries: ReadonlySet<Canary>
}

interface Place {
  id: string
  humans: Set<string>
  agents: Set<string>
  /** The start of the current confidential period; null if the space is open. */
  since: number | null
  said: (Words & { askers: string[] })[]
}

interface Run extends Marks {
  agent: string
  askers: string[]
  worksIn: string | null
  canaries: Set<Canary>
}

const COUNTS = { spaces: 5, humans: 5, agents: 3, runs: 8, kept: 6, said: 4 }

/**
 * Performs random actions of people and agents: spaces become confidential and open again, members join and leave, and the
 * models of runs try everything. The test calls every rule as the product does, and checks the recipients against the true
 * content.
 */
export function playConfidences(rules: Rules, { seed, steps }: { seed: number; steps: number }): Betrayal | null {
  const play = createPlay(rules, randomOf(seed))
  for (let step = 0; step < steps; step++) {
    const what = play.step()
    if (what !== null) return { step, what }
  }
  return null
}

function createPlay(rules: Rules, random: (below: number) => number) {
  const names = (letter: string, count: number) => Array.from({ length: count }, (_, index) => `${letter}${index}`)
  const [humans, agents] = [names('h', COUNTS.humans), names('a', COUNTS.agents)]
  const places = names('s', COUNTS.spaces).map(
    (id): Place => ({ id, humans: new Set(), agents: new Set(), since: null, said: [] }),
  )
  const byId = new Map(places.map((place) => [place.id, place]))
  const runs: Run[] = []
  const kept = new Map<string, Words[]>(agents.map((id) => [id, []]))
  let time = 0

  const one = <T>(list: readonly T[]): T | undefined => list[random(list.length)]
  const world: World = {
    isConfidential: (id) => byId.get(id)?.since != null,
    humansOf: (id) => byId.get(id)?.humans ?? new Set(),
  }
  const labelNow = (marks: Marks) => rules.labelOf(marksOf(marks), world)
  /** Returns the secrets that still count. Removing a space's confidentiality has freed its secret. */
  const alive = (canaries: Iterable<Canary>) =>
    [...canaries].flatMap((canary) => {
      const [id = '', since] = canary.split('@')
      return byId.get(id)?.since === Number(since) ? [id] : []
    })

  /** Nobody may read content of a confidential space without being a member. */
  function heardBy(human: string, canaries: Iterable<Canary>, where: string): string | null {
    const from = alive(canaries).find((id) => !byId.get(id)?.humans.has(human))
    return from === undefined ? null : `${human} reads in ${where} a text from ${from}`
  }

  function saidIn(place: Place, words: Words & { askers: string[] }): string | null {
    place.said = [...place.said, words].slice(-COUNTS.said)
    for (const human of place.humans) {
      const betrayal = heardBy(human, words.canaries, place.id)
      if (betrayal !== null) return betrayal
    }
    return null
  }

  function begin(run: Run): void {
    runs.push(run)
    if (runs.length > COUNTS.runs) runs.shift()
  }

  function know(run: Run, { canaries, ...marks }: Words, isPlace: string | null): void {
    const learned = { places: isPlace === null ? [] : [isPlace], label: labelNow(marks) }
    Object.assign(run, marksTogether([run, learned]))
    for (const canary of canaries) if (alive([canary]).length > 0) run.canaries.add(canary)
  }

  /** A message wakes an agent. The message's text decides who the requesters are. */
  function wake(place: Place, agent: string, words: Words & { askers: string[] }): void {
    const run: Run = { agent, askers: words.askers, worksIn: place.id, places: [], label: [], canaries: new Set() }
    know(run, words, place.id)
    begin(run)
  }

  function humanSpeaks(): string | null {
    const place = one(places)
    const human = place && one([...place.humans])
    if (place === undefined || human === undefined) return null
    const canaries = new Set<Canary>(place.since === null ? [] : [`${place.id}@${place.since}`])
    const words = { places: [place.id], label: [], canaries, askers: [human] }
    const agent = one([...place.agents])
    const betrayal = saidIn(place, words)
    if (agent !== undefined) wake(place, agent, words)
    return betrayal
  }

  function membersChange(): null {
    const place = one(places)
    const isHuman = random(3) > 0
    const who = one(isHuman ? humans : agents)
    if (place === undefined || who === undefined) return null
    const members = isHuman ? place.humans : place.agents
    if (!members.delete(who)) members.add(who)
    return null
  }

  function confidenceChanges(): null {
    const place = one(places)
    if (place === undefined) return null
    time += 1
    place.since = place.since === null ? time : random(3) === 0 ? null : place.since
    return null
  }

  /** The run reads the last messages of a space, if it may. */
  function enters(run: Run): string | null {
    const place = one(places.filter((one) => one.agents.has(run.agent)))
    if (place === undefined || !rules.mayEnter(run.askers, place.id, world)) return null
    const isStranger = run.askers.some((id) => !place.humans.has(id))
    if (place.since !== null && isStranger) return `${run.askers.join()} sends a run into ${place.id}`
    for (const words of place.said) know(run, words, place.id)
    return null
  }

  /** The run posts its content there, and another agent continues with it. */
  function speaks(run: Run): string | null {
    const place = one(places.filter((one) => one.agents.has(run.agent)))
    if (place === undefined || !rules.mayEnter(run.askers, place.id, world)) return null
    if (rules.obstacle(labelNow(run), place.id, world) !== null) return null
    const words = {
      places: [...run.places],
      label: [...run.label],
      canaries: new Set(run.canaries),
      askers: run.askers,
    }
    const betrayal = saidIn(place, words)
    const other = one([...place.agents].filter((id) => id !== run.agent))
    if (other !== undefined && random(2) === 0) wake(place, other, words)
    return betrayal
  }

  function callsOutside(run: Run): string | null {
    if (!rules.mayLeave(labelNow(run), { mayReceiveConfidential: false })) return null
    const [from] = alive(run.canaries)
    return from === undefined ? null : `a tool is given what was said in ${from}`
  }

  function asksToApprove(run: Run): string | null {
    const human = one(humans)
    if (human === undefined || !rules.mayHear(labelNow(run), human, world)) return null
    return heardBy(human, run.canaries, 'a question')
  }

  function keeps(run: Run): null {
    const own = kept.get(run.agent) ?? []
    own.push({ places: [...run.places], label: [...run.label], canaries: new Set(run.canaries) })
    if (own.length > COUNTS.kept) own.shift()
    return null
  }

  /** The run recalls stored rows. If it has requesters, it recalls them only where everybody may read them. */
  function recalls(run: Run): string | null {
    const words = one(kept.get(run.agent) ?? [])
    if (words === undefined || !rules.mayRecall(labelNow(words), run.worksIn, world)) return null
    know(run, words, null)
    const listeners = run.worksIn === null ? [] : [...world.humansOf(run.worksIn)]
    const from = alive(words.canaries)
    if (run.worksIn === null && from.length > 0) return `a run that works nowhere recalls what was said in ${from[0]}`
    for (const human of listeners) {
      const betrayal = heardBy(human, words.canaries, `the mind that works in ${run.worksIn}`)
      if (betrayal !== null) return betrayal
    }
    return null
  }

  /** The run reads the subject of another run of its agent. */
  function compares(run: Run): string | null {
    const other = one(runs.filter((one) => one !== run && one.agent === run.agent))
    if (other === undefined || !rules.mayCompare(labelNow(other), labelNow(run))) return null
    const own = new Set(labelNow(run))
    const from = alive(other.canaries).find((id) => !own.has(id))
    return from === undefined ? null : `a run reads the content of another one from ${from}`
  }

  /** Two events share one cycle, which works for the requesters of both. */
  function thinksTogether(run: Run): string | null {
    const other = one(runs.filter((one) => one !== run && one.agent === run.agent))
    if (other === undefined || !rules.belongTogether(labelNow(run), labelNow(other))) return null
    const [mine, others] = [alive(run.canaries), alive(other.canaries)]
    const from = [...mine, ...others].find((id) => !labelNow(run).includes(id) || !labelNow(other).includes(id))
    if (from !== undefined) return `a cycle has events of ${from} beside others`
    know(run, other, null)
    run.askers = union(run.askers, other.askers)
    if (other.worksIn !== run.worksIn) run.worksIn = null
    return null
  }

  function isTold(run: Run): string | null {
    const place = one(places.filter((one) => one.agents.has(run.agent)))
    if (place === undefined || place.since === null || !rules.mayKnow(run.askers, place.id, world)) return null
    const isStranger = run.askers.length === 0 || run.askers.some((id) => !place.humans.has(id))
    return isStranger ? `a run for ${run.askers.join() || 'nobody'} sees the members of ${place.id}` : null
  }

  /** A run of a plan works for the author of the plan, and a run of a service for nobody. */
  function wakesLater(run: Run): null {
    const isService = random(2) === 0
    begin({
      agent: run.agent,
      ...(isService ? { places: [], label: [], canaries: new Set() } : { ...run, canaries: new Set(run.canaries) }),
      worksIn: null,
      askers: isService ? [] : run.askers,
    })
    return null
  }

  const deeds = [
    enters,
    enters,
    speaks,
    speaks,
    callsOutside,
    asksToApprove,
    keeps,
    recalls,
    recalls,
    compares,
    thinksTogether,
    isTold,
    wakesLater,
  ]

  return {
    step(): string | null {
      const event = random(20)
      if (event < 3) return membersChange()
      if (event < 4) return confidenceChanges()
      if (event < 8) return humanSpeaks()
      const run = one(runs)
      return run === undefined ? null : (one(deeds)?.(run) ?? null)
    },
  }
}

/** Returns the same numbers for the same seed (mulberry32). */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * below)
  }
}
