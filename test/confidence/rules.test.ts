import { describe, expect, test } from 'vitest'
import { RULES, type Rules } from '../../src/confidence/rules.ts'
import { playConfidences } from '../support/random-confidences.ts'

/** Another one each day; `npm run test:faults` plays more steps. */
const seed = Math.floor(Date.now() / 86_400_000)

describe('the rules of confidential spaces, played by random people and agents', () => {
  test('nobody hears what they may not', () => {
    expect(playConfidences(RULES, { seed, steps: 100_000 }), `seed ${seed}`).toBeNull()
  })

  const yes = () => true
  const broken: [what: string, rules: Partial<Rules>][] = [
    ['no space counts', { labelOf: () => [] }],
    ['of several spaces one counts', { labelOf: (...given) => RULES.labelOf(...given).slice(0, 1) }],
    ['words go anywhere', { obstacle: () => null }],
    ['one listener who belongs there is enough', { obstacle: oneIsEnough }],
    ['tools are given everything', { mayLeave: yes }],
    ['everybody is asked to approve', { mayHear: yes }],
    ['everything is recalled', { mayRecall: yes }],
    ['a run goes where its askers do not belong', { mayEnter: yes }],
    ['a run is told who is in every space', { mayKnow: yes }],
    ['a run is told of every other one', { mayCompare: yes }],
    ['a cycle takes whatever there is', { belongTogether: yes }],
  ]

  test.each(broken)('it is seen where a rule is broken: %s', (_, rules) => {
    expect(playConfidences({ ...RULES, ...rules }, { seed, steps: 200_000 }), `seed ${seed}`).not.toBeNull()
  })
})

const oneIsEnough: Rules['obstacle'] = (label, spaceId, world) => {
  const found = RULES.obstacle(label, spaceId, world)
  return found !== null && found.humanIds.length < world.humansOf(spaceId).size ? null : found
}
