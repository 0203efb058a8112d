import { expect, test } from 'vitest'
import { provJsonOf } from '../../web/inspect/prov-json.ts'

const AT = '2026-11-27T10:00:00.000Z'
const step = (kind: string, id: string | null, causes: number[], at: string | null = AT) => ({
  kind,
  id,
  text: `The ${kind}`,
  at,
  causes,
})

test('a trace is exported as PROV-JSON, with a relation for each kind of effect and cause', () => {
  const steps = [
    step('MESSAGE', 'msg_1', [1, 3]),
    step('TOOL_CALL', 'tcl_1', [2, 3, 4]),
    step('RUN', 'run_1', [4]),
    step('HUMAN', 'hum_1', []),
    step('HIDDEN', null, [5], null),
    step('MEMORY', 'mem_1', [4]),
  ] as Parameters<typeof provJsonOf>[0]
  expect(provJsonOf(steps)).toEqual({
    prefix: { parley: 'urn:parley:' },
    entity: {
      'parley:msg_1': {
        'prov:type': { $: 'parley:message', type: 'prov:QUALIFIED_NAME' },
        'prov:label': 'The MESSAGE',
        'parley:at': AT,
      },
      'parley:hidden-4': {
        'prov:type': { $: 'parley:hidden', type: 'prov:QUALIFIED_NAME' },
        'prov:label': 'The HIDDEN',
      },
      'parley:mem_1': {
        'prov:type': { $: 'parley:memory', type: 'prov:QUALIFIED_NAME' },
        'prov:label': 'The MEMORY',
        'parley:at': AT,
      },
    },
    activity: {
      'parley:tcl_1': {
        'prov:type': { $: 'parley:tool_call', type: 'prov:QUALIFIED_NAME' },
        'prov:label': 'The TOOL_CALL',
        'prov:startTime': AT,
      },
      'parley:run_1': {
        'prov:type': { $: 'parley:run', type: 'prov:QUALIFIED_NAME' },
        'prov:label': 'The RUN',
        'prov:startTime': AT,
      },
    },
    agent: {
      'parley:hum_1': {
        'prov:type': { $: 'prov:Person', type: 'prov:QUALIFIED_NAME' },
        'prov:label': 'The HUMAN',
        'parley:at': AT,
      },
    },
    wasGeneratedBy: { '_:r1': { 'prov:entity': 'parley:msg_1', 'prov:activity': 'parley:tcl_1' } },
    wasAttributedTo: { '_:r2': { 'prov:entity': 'parley:msg_1', 'prov:agent': 'parley:hum_1' } },
    wasInformedBy: { '_:r3': { 'prov:informed': 'parley:tcl_1', 'prov:informant': 'parley:run_1' } },
    wasAssociatedWith: { '_:r4': { 'prov:activity': 'parley:tcl_1', 'prov:agent': 'parley:hum_1' } },
    used: {
      '_:r5': { 'prov:activity': 'parley:tcl_1', 'prov:entity': 'parley:hidden-4' },
      '_:r6': { 'prov:activity': 'parley:run_1', 'prov:entity': 'parley:hidden-4' },
    },
    wasDerivedFrom: {
      '_:r7': { 'prov:generatedEntity': 'parley:hidden-4', 'prov:usedEntity': 'parley:mem_1' },
      '_:r8': { 'prov:generatedEntity': 'parley:mem_1', 'prov:usedEntity': 'parley:hidden-4' },
    },
  })
})
