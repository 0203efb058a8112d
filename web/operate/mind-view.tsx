import { Link } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentMindQuery, GoalStatus } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { ModelMessages } from '../inspect/model-messages.tsx'
import { listOf } from '../inspect/prompt.ts'
import { useSession } from '../session.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Confided } from '../ui/confided.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { AreaField, Form, TextField, textIn } from '../ui/field.tsx'
import { Json } from '../ui/json.tsx'
import { Unanswered } from '../ui/notice.tsx'
import { PlainText } from '../ui/plain-text.tsx'
import { Status } from '../ui/status.tsx'
import { Moment } from '../ui/time.tsx'
import {
  AGENT_MIND,
  DELETE_GOALS,
  DELETE_MEMORIES,
  REMOVE_INBOX_EVENT,
  RESET_CONSCIOUSNESS,
  SET_GOALS,
  SET_MEMORIES,
} from './mind-operations.ts'

type Internals = NonNullable<NonNullable<ConsoleAgentMindQuery['agent']>['internals']>
const EVERY_MS = 3000

/** An agent's stored state: memories, goals, inbox and consciousness (“Earlier thoughts”). */
export function MindView({ agentId }: { agentId: string }) {
  const ask = useAsk(AGENT_MIND, { id: agentId }, { everyMs: EVERY_MS })
  const agent = ask.data?.agent
  const internals = agent?.internals
  if (!internals) return <Unanswered what="the agent’s memory" ask={ask} />
  return (
    <div className="mind">
      <Boundary what="list of memories" version={internals.memories}>
        <Memories agentId={agentId} memories={internals.memories} />
      </Boundary>
      <Boundary what="list of goals" version={internals.goals}>
        <Goals agentId={agentId} goals={internals.goals} />
      </Boundary>
      {agent?.mind === 'STATELESS' ? (
        <p className="block hint">
          This agent is stateless: every trigger starts a separate run, so there is no inbox, and no thoughts are kept
          between runs. Its memories and goals are kept.
        </p>
      ) : (
        <>
          <Boundary what="inbox" version={internals.inbox}>
            <Inbox inbox={internals.inbox} />
          </Boundary>
          <Boundary what="list of earlier thoughts" version={internals.consciousness}>
            <Thoughts agentId={agentId} consciousness={internals.consciousness} />
          </Boundary>
        </>
      )}
    </div>
  )
}

function Inbox({ inbox }: { inbox: Internals['inbox'] }) {
  const { connection } = useSession()
  const remove = useDo(async (id: string) =>
    payloadOf((await connection.ask(REMOVE_INBOX_EVENT, { id })).removeInboxEvent, 'RemoveInboxEventPayload'),
  )
  return (
    <section className="block card">
      <h2>Inbox</h2>
      <p className="hint">Events that the agent has not read yet. It reads them in its next run.</p>
      {inbox.edges.length === 0 && <p className="hint">Empty: every event was processed.</p>}
      <ul className="rows">
        {inbox.edges.map(({ node }) => (
          <li key={node.id} className="tool-row">
            <div className="grow">
              <span className="kind">{node.type.toLowerCase().replaceAll('_', ' ')}</span>{' '}
              {node.urgent && <span className="kind bad">urgent</span>}{' '}
              <span className="note">
                {whenceOf(node.payload)} <Moment at={node.createdAt} />
              </span>
              <InboxPayload payload={node.payload} />
            </div>
            <AskFirst
              title="Remove this event?"
              submit="Remove"
              isBusy={remove.isBusy}
              error={remove.error}
              onConfirm={(close) => remove.start(node.id, close)}
              button={(ask) => <IconButton label="Remove from the inbox" icon="cross" onClick={ask} />}
            >
              <p>The agent will never read this event. The message itself stays in its space.</p>
            </AskFirst>
          </li>
        ))}
      </ul>
      {inbox.pageInfo.hasNextPage && <p className="hint">Showing the oldest {inbox.edges.length}.</p>}
    </section>
  )
}

/** Returns the sender and space of a message event. For other events, returns the name of the service or plan. */
function whenceOf(payload: unknown): string {
  const { senderName, spaceName, name } = (payload ?? {}) as Record<string, unknown>
  if (typeof senderName === 'string' && typeof spaceName === 'string') return `${senderName} in ${spaceName}`
  return typeof name === 'string' ? name : ''
}

/** Shows the text of a message event or of an event of the console, and any other event as JSON. */
function InboxPayload({ payload }: { payload: unknown }) {
  const event = (payload ?? {}) as { content?: unknown; payload?: { text?: unknown } | null }
  const content = event.content ?? event.payload?.text
  return typeof content === 'string' ? <PlainText text={content} /> : <Json label="Event" value={payload} />
}

type Cycle = NonNullable<Internals['consciousness']>['cycles']['edges'][number]['node']

interface ThoughtsProps {
  agentId: string
  consciousness: Internals['consciousness']
}

function Thoughts({ agentId, consciousness }: ThoughtsProps) {
  const { connection } = useSession()
  const reset = useDo(async (_: null) =>
    payloadOf((await connection.ask(RESET_CONSCIOUSNESS, { agentId })).resetConsciousness, 'ResetConsciousnessPayload'),
  )
  if (consciousness === null) return null
  const { cycleCount, lastCycleAt, tokenEstimate, cycles } = consciousness
  return (
    <section className="block card">
      <div className="block-head">
        <h2>Earlier thoughts</h2>
        <AskFirst
          title="Reset the earlier thoughts?"
          submit="Reset"
          isBusy={reset.isBusy}
          error={reset.error}
          onConfirm={(close) => reset.start(null, close)}
          button={(ask) => (
            <Button look="danger" onClick={ask} disabled={cycleCount === 0}>
              Reset
            </Button>
          )}
        >
          <p>
            The agent continues without its thoughts from earlier runs. The runs stay visible, and its memories, goals,
            plans and inbox stay. This cannot be undone.
          </p>
        </AskFirst>
      </div>
      <p className="hint">
        What the agent thought and did in earlier runs. The next run continues from here. {cycleCount}{' '}
        {cycleCount === 1 ? 'run' : 'runs'}, about {tokenEstimate.toLocaleString()} tokens
        {lastCycleAt !== null && (
          <>
            , the last at <Moment at={lastCycleAt} />
          </>
        )}
      </p>
      <ol className="steps">
        {cycles.edges.toReversed().map(({ node }) => (
          <Boundary key={node.id} what="run" version={node} text={() => node.summary ?? ''}>
            <CycleView cycle={node} />
          </Boundary>
        ))}
      </ol>
      {cycles.pageInfo.hasPreviousPage && <p className="hint">Showing the newest {cycles.edges.length}.</p>}
    </section>
  )
}

/** One think cycle: its summary, and its messages. */
function CycleView({ cycle: { endedAt, summary, messages, run, confidentialTo } }: { cycle: Cycle }) {
  return (
    <li className="step">
      <header>
        <h3>
          <Moment at={endedAt} />
        </h3>
        <Confided to={confidentialTo} />
        {run !== null && <Link href={`/runs/${run.id}`}>Open its run</Link>}
      </header>
      {summary !== null && summary !== '' && <PlainText text={summary} />}
      <details>
        <summary>Messages of the run</summary>
        <ModelMessages messages={listOf(messages)} />
      </details>
    </li>
  )
}

function Memories({ agentId, memories }: { agentId: string; memories: Internals['memories'] }) {
  const { connection } = useSession()
  const save = useDo(async (values: FormData) => {
    const memory = { key: textIn(values, 'key') ?? '', value: textIn(values, 'value') ?? '' }
    const made = await connection.ask(SET_MEMORIES, { input: { agentId, memories: [memory] } })
    payloadOf(made.setMemories, 'SetMemoriesPayload')
  })
  const remove = useDo(async (key: string) => {
    const made = await connection.ask(DELETE_MEMORIES, { input: { agentId, keys: [key] } })
    payloadOf(made.deleteMemories, 'DeleteMemoriesPayload')
  })
  return (
    <section className="block card">
      <h2>Memories</h2>
      <p className="hint">Facts that the agent has stored. It sees them in each run.</p>
      {memories.length === 0 && (
        <p className="hint">No memories yet. Ask the agent to remember something, or add one below.</p>
      )}
      <ul className="rows">
        {memories.map(({ id, key, value, updatedAt, confidentialTo }) => (
          <li key={id} className="tool-row">
            <div className="grow">
              <b>{key}</b>{' '}
              <span className="note">
                written <Moment at={updatedAt} />
              </span>{' '}
              <Confided to={confidentialTo} /> <Link href={`/why/${id}`}>Why</Link>
              <PlainText text={value} />
            </div>
            <AskFirst
              title={`Delete the memory ${key}?`}
              submit="Delete"
              isBusy={remove.isBusy}
              error={remove.error}
              onConfirm={(close) => remove.start(key, close)}
              button={(ask) => <IconButton label={`Forget ${key}`} icon="cross" onClick={ask} />}
            >
              <p>Later runs no longer see this memory. This cannot be undone.</p>
            </AskFirst>
          </li>
        ))}
      </ul>
      <details>
        <summary>Write a memory</summary>
        <Form label="Write a memory" submit="Write" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
          <TextField label="Key" name="key" required hint="A short name, such as gate code." />
          <AreaField label="Value" name="value" rows={2} required hint="The fact, such as 4711." />
        </Form>
      </details>
    </section>
  )
}

const NEXT: Record<GoalStatus, GoalStatus> = { ACTIVE: 'COMPLETED', COMPLETED: 'ABANDONED', ABANDONED: 'ACTIVE' }

function Goals({ agentId, goals }: { agentId: string; goals: Internals['goals'] }) {
  const { connection } = useSession()
  const save = useDo(async (goal: { id?: string; description?: string; status?: GoalStatus }) => {
    payloadOf((await connection.ask(SET_GOALS, { input: { agentId, goals: [goal] } })).setGoals, 'SetGoalsPayload')
  })
  const remove = useDo(async (id: string) => {
    payloadOf((await connection.ask(DELETE_GOALS, { input: { agentId, ids: [id] } })).deleteGoals, 'DeleteGoalsPayload')
  })
  return (
    <section className="block card">
      <h2>Goals</h2>
      <p className="hint">
        Aims that the agent pursues over several runs. The agent sets them itself, or an admin does.
      </p>
      {goals.length === 0 && <p className="hint">No goals yet.</p>}
      <ul className="rows">
        {goals.map(({ id, description, status, confidentialTo }) => (
          <li key={id} className="plain-row">
            <span className="grow" dir="auto">
              {description}
            </span>
            <Confided to={confidentialTo} />
            <Status of={status} />
            <Button look="quiet" onClick={() => save.start({ id, status: NEXT[status] })}>
              Mark {NEXT[status].toLowerCase()}
            </Button>
            <AskFirst
              title="Delete this goal?"
              submit="Delete"
              isBusy={remove.isBusy}
              error={remove.error}
              onConfirm={(close) => remove.start(id, close)}
              button={(ask) => <IconButton label="Remove this goal" icon="cross" onClick={ask} />}
            >
              <p>
                The agent no longer pursues this goal. This cannot be undone; to keep it on record, mark it abandoned
                instead.
              </p>
            </AskFirst>
          </li>
        ))}
      </ul>
      <details>
        <summary>Add a goal</summary>
        <Form
          label="Add a goal"
          submit="Add"
          isBusy={save.isBusy}
          error={save.error}
          onSubmit={(values) => save.start({ description: textIn(values, 'description') ?? '' })}
        >
          <TextField label="Goal" name="description" required />
        </Form>
      </details>
    </section>
  )
}
