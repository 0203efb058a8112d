import { type ReactNode, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { type AgentActivity, type Message, payloadOf, type Space, type SpaceState } from '../../client/index.ts'
import type { Routing } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { Grants } from '../decide/grants.tsx'
import { LevelField } from '../notify/level-field.tsx'
import { SpaceBudget } from '../operate/budget.tsx'
import { InviteByMail } from '../operate/invite-by-mail.tsx'
import { useWordsBelow } from '../operate/spaces-of-agents.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { AreaField, Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Folded } from '../ui/folded.tsx'
import { Refused } from '../ui/notice.tsx'
import { Confidence } from './confidence.tsx'
import { CopySpace } from './copy-space.tsx'
import { useByName } from './equal-names.ts'
import { JoinLinks } from './join-links.tsx'
import { ADD_MEMBER, AGENT_CHOICES, PEOPLE_CHOICES, REMOVE_MEMBER, UPDATE_SPACE } from './operations.ts'
import { PresenceDot } from './presence.tsx'
import { SpaceFiles } from './space-files.tsx'

export const ROUTINGS = [
  ['BROADCAST', 'Every agent, for every message'],
  ['ADMIN', 'The admin agent, which involves the others'],
  ['MENTION_CHAIN', 'One agent in turn, or the one that is mentioned'],
] as const

/** The part of the details that gets the focus. */
export type Part = 'ALL' | 'AGENTS' | 'PEOPLE'

interface SpaceDetailsProps {
  space: Space
  /** The loaded messages. */
  messages: readonly Message[]
  part: Part
  presence: SpaceState['presence']
  activity: readonly AgentActivity[]
  open: boolean
  onOpenChange(open: boolean): void
}

/** The members of a space and its settings, then what people look up or change less often. */
export function SpaceDetails({ space, messages, presence, activity, part, open, onOpenChange }: SpaceDetailsProps) {
  const { humanId } = useSession()
  const [leaver, setLeaver] = useState<Member | null>(null)
  const agents = space.members.filter(({ kind }) => kind === 'AGENT')
  const people = space.members.filter(({ kind }) => kind === 'HUMAN')
  const own = people.find(({ id }) => id === humanId)
  return (
    <Dialog title={`About ${space.name}`} look="sheet" open={open} onOpenChange={onOpenChange}>
      {space.description !== null && (
        <p className="block" dir="auto">
          {space.description}
        </p>
      )}
      <Members
        title="People"
        members={people}
        space={space}
        onRemove={setLeaver}
        stateOf={({ id }) => <PresenceDot presence={presence.get(id)?.presence ?? 'OFFLINE'} />}
      />
      <AddPerson space={space} hasFocus={part === 'PEOPLE'} />
      <Members
        title="Agents"
        members={agents}
        space={space}
        onRemove={setLeaver}
        stateOf={({ id }) => <span className="note">{stateOfAgent(activity, id)}</span>}
      />
      <AddAgent space={space} hasFocus={part === 'AGENTS'} />
      <Folded title="Settings">
        <EditSpace space={space} agents={agents} />
      </Folded>
      <JoinLinks spaceId={space.id} />
      <SpaceFiles spaceId={space.id} messages={messages} onOpen={() => onOpenChange(false)} />
      <LevelField spaceId={space.id} />
      <Confidence space={space} />
      <Grants spaceId={space.id} />
      <SpaceBudget spaceId={space.id} />
      <Folded title="Copy this space">
        <CopySpace space={space} onCopied={() => onOpenChange(false)} />
      </Folded>
      {own !== undefined && (
        <p>
          <Button look="danger" icon="out" onClick={() => setLeaver(own)}>
            Leave this space…
          </Button>
        </p>
      )}
      <Removal space={space} leaver={leaver} onClose={() => setLeaver(null)} />
    </Dialog>
  )
}

/** Returns what an agent is doing. `waiting`: for people, a service or a message. */
function stateOfAgent(activity: readonly AgentActivity[], agentId: string): string {
  const { active = false, runs = [] } = activity.find(({ agent }) => agent.id === agentId) ?? {}
  if (active || runs.some(({ status }) => status === 'RUNNING')) return 'running'
  return runs.some(({ status }) => status === 'WAITING_TOOL') ? 'waiting' : runs.length > 0 ? 'queued' : 'idle'
}

type Member = Space['members'][number]

interface MembersProps {
  title: string
  members: Space['members']
  space: Space
  onRemove(member: Member): void
  stateOf(member: Member): ReactNode
}

function Members({ title, members, space, onRemove, stateOf }: MembersProps) {
  const { humanId } = useSession()
  return (
    <section className="block">
      <h3>{title}</h3>
      {members.length === 0 && <p className="hint">None yet.</p>}
      <ul className="member-list">
        {members.map((member) => (
          <li key={member.id}>
            <Avatar entity={member} size={28} />
            <span className="grow">
              {member.kind === 'AGENT' ? <Link href={`/agents/${member.id}`}>{member.name}</Link> : member.name}
              {space.adminAgent?.id === member.id && space.routing === 'ADMIN' && (
                <span className="kind">admin agent</span>
              )}
            </span>
            {stateOf(member)}
            <IconButton
              label={member.id === humanId ? 'Leave this space' : `Remove ${member.name}`}
              icon="cross"
              onClick={() => onRemove(member)}
            />
          </li>
        ))}
      </ul>
    </section>
  )
}

/** Asks before a member is removed, or the viewer leaves. */
function Removal({ space, leaver, onClose }: { space: Space; leaver: Member | null; onClose(): void }) {
  const { connection, humanId } = useSession()
  const [, go] = useLocation()
  const isLeaving = leaver?.id === humanId
  const remove = useDo(async (entityId: string) => {
    const { removeMember } = await connection.ask(REMOVE_MEMBER, { spaceId: space.id, entityId })
    payloadOf(removeMember, 'RemoveMemberPayload')
    onClose()
    if (entityId === humanId) go('/')
  })
  return (
    <Confirm
      title={isLeaving ? `Leave ${space.name}?` : `Remove ${leaver?.name ?? ''}?`}
      submit={isLeaving ? 'Leave' : 'Remove'}
      open={leaver !== null}
      onOpenChange={(open) => !open && onClose()}
      isBusy={remove.isBusy}
      error={remove.error}
      onConfirm={() => leaver !== null && remove.start(leaver.id)}
    >
      <p>{wordsOfLeaving(leaver, isLeaving)}</p>
    </Confirm>
  )
}

function wordsOfLeaving(leaver: Member | null, isViewer: boolean): string {
  if (isViewer) return 'You can no longer read or write here. To return, a member or an admin has to add you again.'
  if (leaver?.kind === 'AGENT') return `${leaver.name} no longer receives messages of this space. You can add it again.`
  return `${leaver?.name ?? ''} can no longer read or write here, until a member or an admin adds them again. All join links of this space stop working.`
}

function AddAgent({ space, hasFocus }: { space: Space; hasFocus: boolean }) {
  const [search, setSearch] = useState('')
  const { data } = useAsk(AGENT_CHOICES, { search: search === '' ? null : search })
  const found = (data?.agents.edges ?? []).map(({ node }) => node)
  return (
    <AddMember
      label="Add an agent"
      hasFocus={hasFocus}
      space={space}
      found={found}
      search={search}
      onSearch={setSearch}
      nobody="No agent has this name. Admins create agents under Agents."
      nobodyElse={data && 'There are no other agents. Admins create agents under Agents.'}
    />
  )
}

/** An operator can add everybody; a person can add people with whom they share a space. */
function AddPerson({ space, hasFocus }: { space: Space; hasFocus: boolean }) {
  const [search, setSearch] = useState('')
  const { data } = useAsk(PEOPLE_CHOICES, { search: search === '' ? null : search })
  const found = (data?.humans.edges ?? []).flatMap(({ node }) => (node.erasedAt === null ? [node] : []))
  return (
    <>
      <AddMember
        label="Add a person"
        hasFocus={hasFocus}
        space={space}
        found={found}
        search={search}
        onSearch={setSearch}
        nobody="No person that you can see has this name. Create a join link below, and send it to them."
        nobodyElse={data && 'Everybody that you can see is a member. Create a join link below for others.'}
      />
      <InviteByMail spaceIds={[space.id]} />
    </>
  )
}

interface AddMemberProps {
  label: string
  hasFocus: boolean
  space: Space
  found: { id: string; name: string; kind: string; description?: string | null }[]
  search: string
  onSearch(search: string): void
  /** Advice that is shown if nobody is found. */
  nobody: string
  /** Shown instead of the field if there is nobody to add; undefined while the list is loading. */
  nobodyElse: string | undefined
}

const MOST_SUGGESTED = 3
const MOST_FOUND = 6
/** A list of people or agents that is shorter than this is complete. */
const LEAST_PAGE = 20

function AddMember({ label, hasFocus, space, found, search, onSearch, nobody, nobodyElse }: AddMemberProps) {
  const { connection } = useSession()
  const add = useDo(async (entityId: string) => {
    payloadOf((await connection.ask(ADD_MEMBER, { spaceId: space.id, entityId })).addMember, 'AddMemberPayload')
  })
  const known = new Set(space.members.map(({ id }) => id))
  const names = new Set(space.members.filter(({ kind }) => kind === 'AGENT').map(({ name }) => name))
  const isFirst = new Set(useByName(found).map(({ first }) => first.id))
  // Agents with the name of a member are mostly copies: they are offered only if one looks for them.
  const others = found.filter(({ id }) => !known.has(id))
  const offered = others.filter(
    ({ id, name, kind }) => search !== '' || kind !== 'AGENT' || (isFirst.has(id) && !names.has(name)),
  )
  const wordsBelow = useWordsBelow([...space.members, ...offered])
  const isNobodyElse = nobodyElse !== undefined && others.length === 0 && search === '' && found.length < LEAST_PAGE
  if (isNobodyElse) return <p className="hint block">{nobodyElse}</p>
  return (
    <section className="block">
      <TextField
        label={label}
        placeholder="Search by name"
        autoFocus={hasFocus}
        value={search}
        onChange={(event) => onSearch(event.target.value)}
      />
      {offered.length === 0 && search !== '' && (
        <p className="hint" role="status">
          {found.length > 0 ? 'Everybody with this name is already a member.' : nobody}
        </p>
      )}
      <ul className="member-list">
        {offered.slice(0, search === '' ? MOST_SUGGESTED : MOST_FOUND).map((entity) => (
          <li key={entity.id}>
            <Avatar entity={entity} size={28} />
            <span className="grow">
              {entity.name}
              {wordsBelow(entity) !== '' && <small dir="auto">{wordsBelow(entity)}</small>}
            </span>
            <Button icon="plus" onClick={() => add.start(entity.id)} aria-label={`Add ${entity.name}`}>
              Add
            </Button>
          </li>
        ))}
      </ul>
      <Refused error={add.error} />
    </section>
  )
}

function EditSpace({ space, agents }: { space: Space; agents: Space['members'] }) {
  const { connection } = useSession()
  const [routing, setRouting] = useState(space.routing)
  const save = useDo(async (values: FormData) => {
    const input = {
      id: space.id,
      name: textIn(values, 'name') ?? '',
      description: textIn(values, 'description'),
      routing,
      // The form shows the admin agent only with the routing that uses it.
      ...(routing === 'ADMIN' ? { adminAgentId: textIn(values, 'adminAgentId') } : {}),
    }
    payloadOf((await connection.ask(UPDATE_SPACE, { input })).updateSpace, 'UpdateSpacePayload')
  })
  return (
    <Form label="Change this space" submit="Save" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
      <TextField label="Name" name="name" defaultValue={space.name} required maxLength={200} />
      <AreaField label="Description" name="description" defaultValue={space.description ?? ''} rows={2} />
      <SelectField
        label="Which agents wake"
        name="routing"
        value={routing}
        options={ROUTINGS}
        onChange={({ target }) => setRouting(target.value as Routing)}
      />
      {routing === 'ADMIN' && (
        <SelectField
          label="Admin agent"
          name="adminAgentId"
          hint="This agent answers when no agent is mentioned, and involves the others."
          defaultValue={space.adminAgent?.id ?? ''}
          options={[['', 'none set'], ...agents.map(({ id, name }) => [id, name] as const)]}
        />
      )}
    </Form>
  )
}
