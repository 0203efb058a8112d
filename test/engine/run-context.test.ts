import { describe, expect, test } from 'vitest'
import { applyEffects } from '../../src/engine/run-context.ts'
import type { ClaimedRun } from '../../src/runs/claiming.ts'
import type { Effects, RunContext } from '../../src/tools/run-context.ts'

const RUN = {
  id: 'run_1',
  rootId: 'msg_1',
  depth: 1,
  deepestSpaceId: null,
  places: ['spc_b'],
  label: ['spc_b'],
  askers: ['hum_ada'],
  state: null,
  activeSpaceId: null,
  enteredSeq: null,
} as unknown as ClaimedRun

const CONTEXT: RunContext = {
  run: RUN,
  attempt: 1,
  kind: 'started',
  agent: { id: 'agt_1' },
  activeSpace: null,
  ending: null,
}

const SKIP = { type: 'skip', reason: null } as const
const LINEAGE = { rootId: 'msg_2', depth: 3, deepestSpaceId: 'spc_c', places: ['spc_c'], label: [], askers: ['hum_bo'] }

const TABLE: [name: string, effects: Effects, changed: object][] = [
  ['nothing', {}, {}],
  [
    'sources, which are added to those of the run',
    { learned: { places: ['spc_a', 'spc_b'], label: ['spc_a'] } },
    { places: ['spc_a', 'spc_b'], label: ['spc_a', 'spc_b'] },
  ],
  ['a label alone', { learned: { label: ['spc_c'] } }, { label: ['spc_b', 'spc_c'] }],
  ['the state of a cycle', { state: { cycle: 2 } }, { state: { cycle: 2 } }],
  [
    'a lineage, whose marks are added to those of the run',
    { lineage: LINEAGE },
    { ...LINEAGE, places: ['spc_b', 'spc_c'], label: ['spc_b'] },
  ],
  ['a space', { entered: { id: 'spc_a', seq: 7 } }, { activeSpaceId: 'spc_a', enteredSeq: 7 }],
]

describe('the effects of a call', () => {
  test.each(TABLE)('%s', (_, effects, changed) => {
    expect(applyEffects(CONTEXT, effects).run).toEqual({ ...RUN, ...changed })
  })

  test('a space that was entered becomes and stays the active one', () => {
    const entered = { id: 'spc_a', seq: 7 }
    const after = applyEffects(CONTEXT, { entered })
    expect(after.activeSpace).toEqual(entered)
    expect(applyEffects(after, { learned: { label: ['spc_c'] } }).activeSpace).toEqual(entered)
  })

  test('an end of the run stays', () => {
    const after = applyEffects(CONTEXT, { ending: SKIP })
    expect(after.ending).toEqual(SKIP)
    expect(applyEffects(after, {}).ending).toEqual(SKIP)
  })

  test('leave the original context unchanged', () => {
    const before = structuredClone(CONTEXT)
    applyEffects(CONTEXT, {
      learned: { places: ['spc_a'], label: ['spc_a'] },
      entered: { id: 'spc_a', seq: 7 },
      ending: SKIP,
    })
    expect(CONTEXT).toEqual(before)
  })
})
