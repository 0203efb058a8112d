import type { ConsoleWhyQuery } from '../../generated/graphql.ts'

export type WhySteps = NonNullable<ConsoleWhyQuery['why']>['steps']
type Step = WhySteps[number]

/** The classes of W3C PROV: an entity exists, an activity happened, and an agent is responsible. */
const CLASSES: Record<Step['kind'], 'entity' | 'activity' | 'agent'> = {
  MESSAGE: 'entity',
  MEMORY: 'entity',
  PLAN: 'entity',
  AGENT_VERSION: 'entity',
  HIDDEN: 'entity',
  ERASED: 'entity',
  TOOL_CALL: 'activity',
  STEP: 'activity',
  RUN: 'activity',
  HUMAN: 'agent',
  SERVICE: 'agent',
}

const TYPES: Partial<Record<Step['kind'], string>> = {
  HUMAN: 'prov:Person',
  SERVICE: 'prov:SoftwareAgent',
  PLAN: 'prov:Plan',
}

/** The relation of an effect to its cause, with the names of both roles in it. Agents have no causes. */
const RELATIONS = {
  entity: {
    entity: ['wasDerivedFrom', 'prov:generatedEntity', 'prov:usedEntity'],
    activity: ['wasGeneratedBy', 'prov:entity', 'prov:activity'],
    agent: ['wasAttributedTo', 'prov:entity', 'prov:agent'],
  },
  activity: {
    entity: ['used', 'prov:activity', 'prov:entity'],
    activity: ['wasInformedBy', 'prov:informed', 'prov:informant'],
    agent: ['wasAssociatedWith', 'prov:activity', 'prov:agent'],
  },
} as const

type Records = Record<string, Record<string, unknown>>

/** Returns the steps of a trace as PROV-JSON (https://www.w3.org/submissions/prov-json/). */
export function provJsonOf(steps: WhySteps): Record<string, Records | Record<string, string>> {
  const document: Record<string, Records> = {}
  const add = (group: string, id: string, record: Record<string, unknown>) => {
    document[group] = { ...document[group], [id]: record }
  }
  const idOf = (index: number) => `parley:${steps[index]?.id ?? `${steps[index]?.kind.toLowerCase()}-${index}`}`
  for (const [index, step] of steps.entries()) {
    const { kind, text, at } = step
    const isActivity = CLASSES[kind] === 'activity'
    const time = at === null ? {} : { [isActivity ? 'prov:startTime' : 'parley:at']: at }
    const type = { $: TYPES[kind] ?? `parley:${kind.toLowerCase()}`, type: 'prov:QUALIFIED_NAME' }
    add(CLASSES[kind], idOf(index), { 'prov:type': type, 'prov:label': text, ...time })
  }
  let count = 0
  for (const [index, step] of steps.entries()) {
    const effect = CLASSES[step.kind]
    if (effect === 'agent') continue
    for (const from of step.causes) {
      const cause = steps[from]
      if (cause === undefined) continue
      const [relation, ofEffect, ofCause] = RELATIONS[effect][CLASSES[cause.kind]]
      count += 1
      add(relation, `_:r${count}`, { [ofEffect]: idOf(index), [ofCause]: idOf(from) })
    }
  }
  return { prefix: { parley: 'urn:parley:' }, ...document }
}
