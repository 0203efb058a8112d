import type { Message } from '../../client/index.ts'

type Failing = Pick<Message, 'id'> & {
  sender: Pick<Message['sender'], 'kind'>
  outcomes: readonly (Pick<Outcome, 'kind' | 'error'> & { agent: Pick<Outcome['agent'], 'id'> })[]
}
type Outcome = Message['outcomes'][number]

/**
 * Returns for each message the ids of its agents whose failure another message shows, separated by spaces. The newest
 * message with the failure shows it, but a message of a person before the answers to it, because Retry should answer the person.
 */
export function repeatedFailures(messages: readonly Failing[]): ReadonlyMap<string, string> {
  const failed = messages.map(({ id, sender, outcomes }) => ({
    id,
    isOfPerson: sender.kind === 'HUMAN',
    outcomes: outcomes.filter(({ kind }) => kind === 'FAILED'),
  }))
  const shownBy = new Map<string, string>()
  let lastOfPerson: string | null = null
  for (const { id, isOfPerson, outcomes } of failed) {
    if (isOfPerson) lastOfPerson = id
    for (const outcome of outcomes)
      if (isOfPerson || shownBy.get(failureOf(outcome)) !== lastOfPerson) shownBy.set(failureOf(outcome), id)
  }
  const found = new Map<string, string>()
  for (const { id, outcomes } of failed) {
    const repeated = outcomes.filter((outcome) => shownBy.get(failureOf(outcome)) !== id)
    if (repeated.length > 0) found.set(id, repeated.map(({ agent }) => agent.id).join(' '))
  }
  return found
}

const failureOf = ({ agent, error }: Failing['outcomes'][number]) => `${agent.id} ${error}`
