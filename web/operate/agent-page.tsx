import { Tabs } from '@base-ui/react/tabs'
import { Fragment } from 'react'
import { Link, useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentSettingsFragment } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { Grants } from '../decide/grants.tsx'
import { RunList } from '../inspect/runs-page.tsx'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { Status } from '../ui/status.tsx'
import { AddToSpace } from './add-to-space.tsx'
import { AgentSettings } from './agent-settings.tsx'
import { AgentTools } from './agent-tools.tsx'
import { AgentVersions } from './agent-versions.tsx'
import { AgentBudget, isDaySpent } from './budget.tsx'
import { MindView } from './mind-view.tsx'
import { AGENT, DELETE_AGENT, UPDATE_AGENT } from './operations.ts'
import { Plans } from './plans.tsx'
import { ScratchSpace } from './scratch-space.tsx'
import { useSpacesOfAgents } from './spaces-of-agents.ts'
import { WakeUp } from './wake-up.tsx'

const EVERY_MS = 4000

const TABS = ['runs', 'grants']
const TABS_OF_ADMINS = ['settings', 'tools', 'versions', 'mind', 'plans', 'wake']
/** The labels of tabs whose names in URLs differ. */
const NAMES_BY_LABEL: Record<string, string> = { memory: 'mind', trigger: 'wake' }

/** Returns the tab that a URL names, by its name or its label; the runs for an unknown one. */
function tabOf(named: string | undefined, isAdmin: boolean): string {
  const tab = NAMES_BY_LABEL[named ?? ''] ?? named ?? ''
  return (isAdmin ? [...TABS, ...TABS_OF_ADMINS] : TABS).includes(tab) ? tab : 'runs'
}

/** An agent: its runs, settings, tools, memory and plans. */
export function AgentPage({ agentId, tab }: { agentId: string; tab: string | undefined }) {
  const { isAdmin } = useSession()
  const [, go] = useLocation()
  const ask = useAsk(AGENT, { id: agentId }, { everyMs: EVERY_MS })
  if (ask.data === undefined) {
    return (
      <>
        <PageHead title="Agent" />
        <div className="page-scroll">
          <Unanswered what="the agent" ask={ask} />
        </div>
      </>
    )
  }
  const { agent } = ask.data
  if (agent === null) {
    return (
      <>
        <PageHead title="Agent" />
        <Empty icon="agent" title="Agent not found">
          <p>
            The agent may have been deleted. <Link href="/agents">See all agents</Link>
          </p>
        </Empty>
      </>
    )
  }
  return (
    <>
      <PageHead title={agent.name} note={agent.description}>
        {agent.active && <Status of="RUNNING" />}
        {isDaySpent(agent.internals?.budget ?? null) && <Status of="BUDGET_SPENT" />}
        {isAdmin && <PauseButton agent={agent} />}
      </PageHead>
      <div className="page-scroll wide-page">
        <SpacesOfAgent agent={agent} />
        {agent.paused && (
          <p className="over-budget" role="status">
            Paused: messages, plans and services do not wake {agent.name} until an admin clicks Resume. Runs that have
            begun continue.
          </p>
        )}
        <Tabs.Root
          className="tabbed"
          value={tabOf(tab, agent.internals !== null)}
          onValueChange={(next) => go(`/agents/${agentId}/${next}`)}
        >
          <Tabs.List className="tabs">
            <Tabs.Tab value="runs">Runs</Tabs.Tab>
            <Tabs.Tab value="grants">Grants</Tabs.Tab>
            {isAdmin && <Tabs.Tab value="settings">Settings</Tabs.Tab>}
            {isAdmin && <Tabs.Tab value="tools">Tools</Tabs.Tab>}
            {isAdmin && <Tabs.Tab value="versions">Versions</Tabs.Tab>}
            {isAdmin && <Tabs.Tab value="mind">Memory</Tabs.Tab>}
            {isAdmin && <Tabs.Tab value="plans">Plans</Tabs.Tab>}
            {isAdmin && <Tabs.Tab value="wake">Trigger</Tabs.Tab>}
          </Tabs.List>
          <Tabs.Panel value="runs">
            <Boundary what="list of runs">
              <RunList filter={{ agentId }} />
            </Boundary>
          </Tabs.Panel>
          <Tabs.Panel value="grants">
            <Boundary what="list of grants">
              <Grants agentId={agentId} heading="h2" />
            </Boundary>
          </Tabs.Panel>
          {agent.internals !== null && <AdminPanels agent={agent} />}
        </Tabs.Root>
      </div>
    </>
  )
}

/** Links to the spaces of the agent that the viewer may see, with a button to add the agent to another space. */
function SpacesOfAgent({ agent }: { agent: { id: string; name: string } }) {
  const found = useSpacesOfAgents()
  if (found === undefined) return null
  const [spaces, others] = [found.get(agent.id), found.others(agent.id)]
  return (
    <div className="agent-spaces">
      <p className="hint">
        {spaces.length === 0
          ? 'In none of your spaces.'
          : spaces.map(({ id, name }, at) => (
              <Fragment key={id}>
                {at === 0 ? 'In ' : ', '}
                <Link href={`/spaces/${id}`}>{name}</Link>
              </Fragment>
            ))}
        {spaces.length + others.length === 0 && ' Create a space with “New space” in the sidebar.'}
      </p>
      {others.length > 0 && <AddToSpace agent={agent} spaces={others} />}
    </div>
  )
}

/** Pauses an agent, so that nothing wakes it. Active runs continue. */
function PauseButton({ agent: { id, paused } }: { agent: ConsoleAgentSettingsFragment }) {
  const { connection } = useSession()
  const set = useDo(async (next: boolean) => {
    const made = await connection.ask(UPDATE_AGENT, { input: { id, paused: next } })
    payloadOf(made.updateAgent, 'UpdateAgentPayload')
  })
  return (
    <Button icon={paused ? 'play' : 'pause'} isBusy={set.isBusy} onClick={() => set.start(!paused)}>
      {paused ? 'Resume' : 'Pause'}
    </Button>
  )
}

/** Deletes the agent, after a confirmation. */
function DeleteAgent({ agent: { id, name } }: { agent: ConsoleAgentSettingsFragment }) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const remove = useDo(async (_: null) => {
    payloadOf((await connection.ask(DELETE_AGENT, { id })).deleteAgent, 'DeleteAgentPayload')
    go('/agents')
  })
  return (
    <section className="block end">
      <h2>Delete</h2>
      <p className="hint">
        The agent’s messages stay, under its name. Its runs end, and its memory, tools, webhooks and plans are deleted.
      </p>
      <AskFirst
        title={`Delete ${name}?`}
        submit={`Delete ${name}`}
        isBusy={remove.isBusy}
        error={remove.error}
        onConfirm={() => remove.start(null)}
        button={(ask) => (
          <Button look="danger" onClick={ask}>
            Delete this agent…
          </Button>
        )}
      >
        <p>A deleted agent cannot be restored. To stop the agent for a while, pause it instead.</p>
      </AskFirst>
    </section>
  )
}

function AdminPanels({ agent }: { agent: ConsoleAgentSettingsFragment }) {
  return (
    <>
      <Tabs.Panel value="settings" className="beside">
        <Boundary what="form">
          <AgentSettings agent={agent} />
        </Boundary>
        <Boundary what="conversation">
          <ScratchSpace agent={agent} />
        </Boundary>
        <div>
          <AgentBudget agent={agent} />
          <DeleteAgent agent={agent} />
        </div>
      </Tabs.Panel>
      <Tabs.Panel value="tools">
        <Boundary what="list of tools">
          <AgentTools agent={agent} />
        </Boundary>
      </Tabs.Panel>
      <Tabs.Panel value="versions">
        <Boundary what="list of versions">
          <AgentVersions agentId={agent.id} />
        </Boundary>
      </Tabs.Panel>
      <Tabs.Panel value="mind">
        <Boundary what="view of its memory">
          <MindView agentId={agent.id} />
        </Boundary>
      </Tabs.Panel>
      <Tabs.Panel value="plans">
        <Boundary what="list of plans">
          <Plans agentId={agent.id} />
        </Boundary>
      </Tabs.Panel>
      <Tabs.Panel value="wake">
        <Boundary what="form">
          <WakeUp agent={agent} />
        </Boundary>
      </Tabs.Panel>
    </>
  )
}
