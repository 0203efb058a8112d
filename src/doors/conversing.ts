import type { Domain } from '../graphql/domain.ts'
import { forRequester } from '../lib/requester-context.ts'
import { type Caller as DoorCaller, failingAtDoor } from './exchange.ts'

type Parts = Pick<Domain, 'conversations' | 'deletion' | 'rates' | 'record'>
type Conversations = Domain['conversations']
type Caller = Pick<DoorCaller, 'viewer'>

/**
 * Opens and finds conversations for the protocol endpoints ("doors"). Each call counts towards the rate limit. A
 * new space gets an audit entry. Failures are thrown as DoorErrors.
 */
export interface Conversing {
  open(caller: Caller, input: Omit<Parameters<Conversations['open']>[1], 'deed'>): ReturnType<Conversations['open']>
  /** Deletes a new space because its first message was refused. */
  discard(caller: Caller, spaceId: string): Promise<void>
  find(caller: Caller, input: Parameters<Conversations['find']>[1]): ReturnType<Conversations['find']>
  continued(caller: Caller, input: Parameters<Conversations['continued']>[1]): ReturnType<Conversations['continued']>
}

export function createConversing({ conversations, deletion, rates, record }: Parts): Conversing {
  const admitted = <T>({ viewer }: Caller, work: () => Promise<T>): Promise<T> =>
    failingAtDoor(async () => {
      await rates.take('requests', viewer)
      return forRequester(viewer.id, work)
    })
  return {
    open(caller, input) {
      const { viewer } = caller
      const deed = {
        ...actorOf(caller),
        action: 'createSpace',
        targetId: null,
        detail: { memberIds: [input.agentId], fields: ['name', 'memberIds'] },
      }
      const openSpace = () => conversations.open(viewer, { ...input, deed })
      // The flow records the creation of a space as an audited action. Therefore, only refusals are recorded here.
      return admitted(caller, () => record.during(() => deed, openSpace, { onlyRefusals: true }))
    },
    async discard(caller, id) {
      const deedOf = () => ({ ...actorOf(caller), action: 'deleteSpace', targetId: id, detail: {} })
      const deleteSpace = () => deletion.deleteSpace(caller.viewer, { id })
      // The deletion does not count towards the rate limit, because the message may have been refused for exceeding
      // the limit.
      await forRequester(caller.viewer.id, () => record.during(deedOf, deleteSpace, { onlyRefusals: false }))
    },
    find: (caller, input) => admitted(caller, () => conversations.find(caller.viewer, input)),
    continued: (caller, input) => admitted(caller, () => conversations.continued(caller.viewer, input)),
  }
}

const actorOf = ({ viewer }: Caller) => ({
  actorId: viewer.scope === 'HUMAN' ? viewer.id : null,
  serviceName: viewer.scope === 'SERVICE' ? viewer.name : null,
})

const LONGEST_NAME = 60

/** Returns the name for a new conversation, which is the beginning of its first message. */
export function nameOf(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069\s]+/gu, ' ').trim()
  if (line === '') return 'Conversation'
  return line.length <= LONGEST_NAME ? line : `${line.slice(0, LONGEST_NAME - 1).toWellFormed()}…`
}
