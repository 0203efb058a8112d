import { useState } from 'react'
import { Link, useLocation, useSearchParams } from 'wouter'
import { ParleyError, payloadOf } from '../../client/index.ts'
import type { ConsoleAgentsQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { AreaField, Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Status } from '../ui/status.tsx'
import { Moment } from '../ui/time.tsx'
import { ModelField } from './model-field.tsx'
import { AGENTS, CREATE_AGENT } from './operations.ts'
import { useSpacesOfAgents } from './spaces-of-agents.ts'

/** All agents, with search. */
export function AgentsPage() {
  const { isAdmin } = useSession()
  const [search, setSearch] = useState('')
  // Part of the URL, so that other pages can link to the dialog.
  const [asked, setAsked] = useSearchParams()
  const setMaking = (isMaking: boolean) => setAsked(isMaking ? { new: '' } : {}, { replace: true })
  return (
    <>
      <PageHead title="Agents" note="Each with its model and the spaces that you see it in">
        {isAdmin && (
          <Button look="primary" icon="plus" onClick={() => setMaking(true)}>
            New agent
          </Button>
        )}
      </PageHead>
      <div className="page-scroll">
        <div>
          <input
            type="search"
            className="search"
            aria-label="Search agents"
            placeholder="Search by name"
            value={search}
            onChange={(event) => setSearch(event.target.value)}
          />
        </div>
        <Pages key={search}>{(page) => <AgentRows search={search} page={page} />}</Pages>
      </div>
      <NewAgent open={isAdmin && asked.has('new')} onOpenChange={setMaking} />
    </>
  )
}

function AgentRows({ search, page }: { search: string; page: PageOfList }) {
  const { isAdmin } = useSession()
  const { after } = page
  const ask = useAsk(AGENTS, { search: search === '' ? null : search, after })
  const spaces = useSpacesOfAgents()
  if (ask.data === undefined) return <Unanswered what="agents" ask={ask} />
  const { edges, pageInfo } = ask.data.agents
  const agents = edges.map(({ node }) => node)
  if (edges.length === 0 && after === null) {
    return (
      <Empty icon="agent" title={search === '' ? 'No agents yet' : 'No agent with this name'}>
        <p>
          {search === ''
            ? 'An agent has instructions, a model and tools, and posts in the spaces that it is a member of. An admin creates one with “New agent”; “Get started” creates three to try.'
            : 'Try a part of the name, or clear the search to see all agents.'}
        </p>
      </Empty>
    )
  }
  return (
    <>
      <ul className="rows">
        {groupedByName(agents, spaces, isAdmin).map(({ shown, others }) => (
          <li key={shown.id}>
            <AgentRow agent={shown} spaces={spaces} isAdmin={isAdmin} />
            {others.length > 0 && (
              <details className="fold">
                <summary>{others.length} more with this name</summary>
                <ul className="rows">
                  {others.map((agent) => (
                    <li key={agent.id}>
                      <AgentRow agent={agent} spaces={spaces} isAdmin={isAdmin} />
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </li>
        ))}
      </ul>
      <More page={page} pageInfo={pageInfo}>
        More agents
      </More>
    </>
  )
}

type Agent = ConsoleAgentsQuery['agents']['edges'][number]['node']
type Spaces = ReturnType<typeof useSpacesOfAgents>

interface AgentsOfName {
  shown: Agent
  others: Agent[]
}

/**
 * Groups agents by name, so that copies, which have the names of their originals, do not fill the list. Shows the oldest
 * agent that is in a space of the viewer. People who are not admins do not see agents of the name that are in none.
 */
function groupedByName(agents: readonly Agent[], spaces: Spaces, isAdmin: boolean): AgentsOfName[] {
  const isNear = ({ id }: Agent) => spaces !== undefined && spaces.get(id).length > 0
  return [...Map.groupBy(agents, ({ name }) => name).values()].flatMap((ofName) => {
    // The ids of copies are not in the order of their times.
    const oldestFirst = ofName.toSorted((one, other) => Date.parse(one.createdAt) - Date.parse(other.createdAt))
    const shown = oldestFirst.find(isNear) ?? oldestFirst[0]
    if (shown === undefined) return []
    return { shown, others: ofName.filter((agent) => agent !== shown && (isAdmin || isNear(agent))) }
  })
}

interface AgentRowProps {
  agent: Agent
  spaces: Spaces
  isAdmin: boolean
}

function AgentRow({ agent, spaces, isAdmin }: AgentRowProps) {
  const { id, name, description, active, paused, mind, model, createdAt } = agent
  return (
    <Link href={`/agents/${id}`} className="row-link agent-row">
      <Avatar entity={agent} size={36} />
      <span className="grow">
        <b>{name}</b>
        {description !== null && <small dir="auto">{description}</small>}
        {spaces !== undefined && <small>{wordsOfSpaces(spaces.get(id), isAdmin)}</small>}
      </span>
      {active && <Status of="RUNNING" />}
      {paused && <span className="kind">paused</span>}
      {mind === 'PERSISTENT' && <span className="kind">persistent</span>}
      <span className="note">
        {model} · created <Moment at={createdAt} />
      </span>
    </Link>
  )
}

const MOST_NAMED = 3

function wordsOfSpaces(spaces: readonly { name: string }[], isAdmin: boolean): string {
  if (spaces.length === 0) return isAdmin ? 'in no space yet' : 'in none of your spaces'
  const names = spaces.slice(0, MOST_NAMED).map(({ name }) => name)
  const more = spaces.length - names.length
  return `in ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** Adds to the error of an unknown model what an admin can do besides choosing another one. */
function withRemedy(error: ParleyError | null): ParleyError | null {
  const isUnknownModel = error !== null && / is unknown\. Use .*\.$/.test(error.message)
  if (!isUnknownModel) return error
  return new ParleyError(`${error.message.slice(0, -1)}, or add its provider under Models.`, error.code)
}

function NewAgent({ open, onOpenChange }: { open: boolean; onOpenChange(open: boolean): void }) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const create = useDo(async (values: FormData) => {
    const input = {
      name: textIn(values, 'name') ?? '',
      description: textIn(values, 'description'),
      instructions: textIn(values, 'instructions') ?? '',
      model: textIn(values, 'model'),
      mind: values.get('mind') === 'PERSISTENT' ? ('PERSISTENT' as const) : ('STATELESS' as const),
      toolset: values.get('toolset') === 'SPACE_TOOLS' ? ('SPACE_TOOLS' as const) : ('ACTIVE_SPACE' as const),
    }
    const { agent } = payloadOf((await connection.ask(CREATE_AGENT, { input })).createAgent, 'CreateAgentPayload')
    go(`/agents/${agent.id}/settings`, { replace: true })
  })
  return (
    <Dialog title="New agent" open={open} onOpenChange={onOpenChange}>
      <Form
        label="New agent"
        submit="Create"
        isBusy={create.isBusy}
        error={withRemedy(create.error)}
        onSubmit={create.start}
      >
        <p className="hint">
          An agent answers in the spaces that it is a member of. After you create it, add it to a space on its own page,
          or try it out beside its settings.
        </p>
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          autoFocus
          placeholder="Iris"
          hint="People mention the agent by this name."
        />
        <TextField
          label="Description (optional)"
          name="description"
          placeholder="Reports the weather"
          hint="One line for people, and for other agents, which decide by it whom to involve."
        />
        <AreaField
          label="Instructions"
          name="instructions"
          required
          rows={5}
          placeholder="You report the weather for the garden. Answer in one sentence, and stay silent otherwise."
          hint="Say who the agent is, what it does and how. The model reads this before each answer."
        />
        <ModelField label="Model (optional)" name="model" placeholder="the server’s default" offersReady />
        <SelectField
          label="Memory"
          name="mind"
          hint="Cannot be changed later. If in doubt, choose Stateless."
          options={[
            ['STATELESS', 'Stateless: each message starts a fresh run'],
            ['PERSISTENT', 'Persistent: one train of thought over all its spaces, with an inbox'],
          ]}
        />
        <details className="fold">
          <summary>Advanced</summary>
          <div className="form">
            <SelectField
              label="Toolset"
              name="toolset"
              hint="Cannot be changed later. If in doubt: active space."
              options={[
                ['ACTIVE_SPACE', 'Active space: the agent works in one space at a time'],
                ['SPACE_TOOLS', 'Space tools: the agent names a space in each call'],
              ]}
            />
          </div>
        </details>
      </Form>
    </Dialog>
  )
}
