import type { Rates } from '../../access/rates.ts'
import type { Viewer } from '../../access/viewer.ts'
import { sleep } from '../../lib/async.ts'
import { identityOf, isPersonal, type Outcome } from './answer.ts'

/** What any event may bring. */
const FREE_CHARACTERS = 16 * 1024
/** Of a longer one, so many are one of the requests that a viewer may send a minute: as much as of a query's answer. */
const CHARACTERS_A_POINT = 4096
/** How often it is looked whether somebody else has come who waits for the same. */
const LOOK_MS = 1000

/**
 * To be waited for between an event's answer and the next one, with those whom it is for. One viewer alone, who asks for so much of each
 * event that it is past its rate, is told the next when its rate allows; what is answered for several is theirs in common.
 */
export type Pace = (
  outcome: Outcome,
  viewers: () => Iterable<Viewer>,
  isNeeded: () => boolean,
) => Promise<void> | undefined

export function createPace(rates: Pick<Rates, 'take' | 'refusal'>): Pace {
  async function wait(viewer: Viewer, points: number, isAlone: () => boolean): Promise<void> {
    await rates.take('requests', viewer, points).catch(() => {})
    for (;;) {
      const refusal = isAlone() ? rates.refusal('requests', viewer) : null
      if (refusal === null) return
      await sleep(Math.min(LOOK_MS, refusal.retryAfterMs))
    }
  }

  return (outcome, viewers, isNeeded) => {
    const points = Math.floor(charactersOf(outcome) / CHARACTERS_A_POINT)
    if (points < FREE_CHARACTERS / CHARACTERS_A_POINT) return
    const viewer = onlyOne(viewers())
    if (viewer === null) return
    return wait(viewer, points, () => isNeeded() && onlyOne(viewers()) !== null)
  }
}

function charactersOf(outcome: Outcome): number {
  if (!isPersonal(outcome)) return outcome.text.length
  const lengths = Array.from(outcome.values(), (one) => (one instanceof Error ? 0 : one.text.length))
  return Math.max(0, ...lengths)
}

/** Null where there are several, or none. */
function onlyOne(viewers: Iterable<Viewer>): Viewer | null {
  let only: Viewer | null = null
  for (const viewer of viewers) {
    if (only !== null && identityOf(only) !== identityOf(viewer)) return null
    only = viewer
  }
  return only
}
