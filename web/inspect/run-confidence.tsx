import type { ConsoleRunConfidenceQuery } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { InConfidence } from '../ui/confided.tsx'
import { RUN_CONFIDENCE } from './operations.ts'

type Internals = NonNullable<NonNullable<ConsoleRunConfidenceQuery['run']>['internals']>
type Step = Internals['steps']['edges'][number]['node']
type Withheld = Step['withheld'][number]

const EVERY_MS = 3000
const KINDS = [
  ['memories', 'memory', 'memories'],
  ['goals', 'goal', 'goals'],
  ['plans', 'plan', 'plans'],
  ['cycles', 'think cycle', 'think cycles'],
] as const

/** Shows admins the requesters of a run, the confidential spaces that it has read from, and what was withheld from each step. */
export function RunConfidence({ runId, isOver }: { runId: string; isOver: boolean }) {
  const { data } = useAsk(RUN_CONFIDENCE, { id: runId }, isOver ? {} : { everyMs: EVERY_MS })
  const internals = data?.run?.internals
  if (!internals) return null
  const { askers, confidentialTo, steps } = internals
  const stretches = stretchesOf(steps.edges.map(({ node }) => node))
  const hasSecrets = stretches.some(({ step }) => step.withheld.length > 0 || step.confidentialTo.length > 0)
  return (
    <section className="block" aria-label="Confidentiality">
      <h2>Confidentiality</h2>
      <p>
        The run{' '}
        {askers === null ? (
          'does not act on behalf of a person'
        ) : (
          <>
            acts on behalf of <b>{namesOf(askers)}</b>
          </>
        )}
        , and{' '}
        {confidentialTo.length === 0 ? (
          'has read nothing from confidential spaces.'
        ) : (
          <>
            has read messages of <InConfidence spaces={confidentialTo} />. The run can repeat this content only in
            places where every reader is also a member of these spaces.
          </>
        )}
      </p>
      {hasSecrets && (
        <ol className="stretches">
          {stretches.map((stretch) => (
            <StretchLine key={stretch.from} {...stretch} />
          ))}
        </ol>
      )}
      {steps.pageInfo.hasNextPage && <p className="hint">Showing the first {steps.edges.length} steps.</p>}
    </section>
  )
}

/** Consecutive steps with the same confidential spaces and the same withheld items. */
interface Stretch {
  from: number
  to: number
  step: Step
}

function StretchLine({ from, to, step: { confidentialTo, withheld } }: Stretch) {
  return (
    <li>
      <h3>{from === to ? `Step ${from}` : `Steps ${from} to ${to}`}</h3>
      <div>
        {confidentialTo.length > 0 && (
          <p>
            Had read messages of <InConfidence spaces={confidentialTo} />
          </p>
        )}
        {withheld.map((one) => (
          <p key={one.space.id}>
            Not shown: {wordsOf(one)} from <InConfidence spaces={[one.space]} />
          </p>
        ))}
        {confidentialTo.length === 0 && withheld.length === 0 && <p className="hint">Nothing confidential.</p>}
      </div>
    </li>
  )
}

function stretchesOf(steps: Step[]): Stretch[] {
  const stretches: Stretch[] = []
  for (const step of steps) {
    const last = stretches.at(-1)
    if (last !== undefined && contentOf(last.step) === contentOf(step)) last.to = step.index + 1
    else stretches.push({ from: step.index + 1, to: step.index + 1, step })
  }
  return stretches
}

const contentOf = ({ confidentialTo, withheld }: Step) => JSON.stringify([confidentialTo, withheld])

const namesOf = (people: { name: string }[]) => people.map(({ name }) => name).join(' and ')

/** Returns words such as `2 memories, 1 think cycle`. */
function wordsOf(withheld: Withheld): string {
  const counts = KINDS.flatMap(([kind, one, many]) =>
    withheld[kind] === 0 ? [] : [`${withheld[kind]} ${withheld[kind] === 1 ? one : many}`],
  )
  return counts.join(', ')
}
