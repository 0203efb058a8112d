import { describe, expect, test } from 'vitest'
import { RULES, type Rules } from '../../src/confidentiality/rules.ts'
import { runsOf } from '../support/effort.ts'
import { playConfidences } from '../support/random-confidences.ts'

/** The seed changes each day. `npm run test:faults` plays more steps. */
const seed = Math.floor(Date.now() / 86_400_000)

describe('the rules of confidential spaces, under random people and agents', () => {
  test('nobody reads content that they may not read', () => {
    expect(
      playConfidences(RULES, { seed, steps: runsOf({ usual: 100_000, nightly: 1_000_000 }) }),
      `seed ${seed}`,
    ).toBeNull()
  })

  const yes = () => true
  const broken: [what: string, rules: Partial<Rules>][] = [
    ['no space counts', { labelOf: () => [] }],
    ['only one of several spaces counts', { labelOf: (...given) => RULES.labelOf(...given).slice(0, 1) }],
    ['texts may be posted anywhere', { obstacle: () => null }],
    ['one member as recipient is enough', { obstacle: oneIsEnough }],
    ['tools get everything', { mayLeave: yes }],
    ['everybody may approve', { mayHear: yes }],
    ['everything is recalled', { mayRecall: yes }],
    ['a run enters a space without its requesters', { mayEnter: yes }],
    ['a run sees the members of every space', { mayKnow: yes }],
    ['a run sees every other one', { mayCompare: yes }],
    ['a cycle claims events of any label', { belongTogether: yes }],
  ]

  test.each(broken)('the check detects a broken rule: %s', (_, rules) => {
    expect(playConfidences({ ...RULES, ...rules }, { seed, steps: 200_000 }), `seed ${seed}`).not.toBeNull()
  })
})

const oneIsEnough: Rules['obstacle'] = (label, spaceId, world) => {
  const found = RULES.obstacle(label, spaceId, world)
  return found !== null && found.humanIds.length < world.humansOf(spaceId).size ? null : found
}
