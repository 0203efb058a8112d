import { useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleHumansQuery, HumanRole } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { Moment } from '../ui/time.tsx'
import { AccessLists } from './access-lists.tsx'
import { HumanBudget } from './budget.tsx'
import { InviteByMail } from './invite-by-mail.tsx'
import { ACT_AS, CREATE_HUMAN, CREATE_INVITATION, CREATE_TOKEN, HUMANS, PERSON, UPDATE_PERSON } from './operations.ts'
import { PersonAccount } from './person-account.tsx'
import { Secret } from './secret.tsx'

/** Manages people, services and their access. */
export function PeoplePage() {
  return (
    <>
      <PageHead title="People and access" />
      <div className="page-scroll narrow-page">
        <People />
        <NewService />
        <AccessLists />
      </div>
    </>
  )
}

function People() {
  const { connection } = useSession()
  const [search, setSearch] = useState('')
  const ask = useAsk(HUMANS, { search: search === '' ? null : search, after: null })
  const form = useRef<HTMLFormElement>(null)
  const create = useDo(async (values: FormData) => {
    const input = { name: textIn(values, 'name') ?? '', email: textIn(values, 'email') }
    payloadOf((await connection.ask(CREATE_HUMAN, { input })).createHuman, 'CreateHumanPayload')
    form.current?.reset()
  })
  const people = (ask.data?.humans.edges ?? []).map(({ node }) => node)
  return (
    <section className="block card">
      <h2>People</h2>
      <Form
        ref={form}
        label="New person"
        submit="Add"
        isBusy={create.isBusy}
        error={create.error}
        onSubmit={create.start}
      >
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          placeholder="Name of the new person"
          hint="Then invite them with a link that works for one sign-in."
        />
        <TextField
          label="E-mail address"
          name="email"
          type="email"
          maxLength={254}
          placeholder="Optional"
          hint="For sign-in by email, and for notifications."
        />
      </Form>
      <InviteByMail spaceIds={[]} />
      <input
        type="search"
        className="search"
        aria-label="Search people"
        placeholder="Search by name"
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      {ask.data === undefined ? (
        <Unanswered what="people" ask={ask} />
      ) : (
        <ul className="rows">
          {people.length === 0 && (
            <li className="hint">
              {search === '' ? 'Nobody yet: add a person above, then invite them.' : 'Nobody has this name.'}
            </li>
          )}
          {people.map((person) => (
            <Person key={person.id} person={person} />
          ))}
        </ul>
      )}
    </section>
  )
}

interface PersonProps {
  person: ConsoleHumansQuery['humans']['edges'][number]['node']
}

function Person({ person: { id, name, kind, role, email, createdAt, erasedAt } }: PersonProps) {
  const { connection, become, humanId } = useSession()
  const [, go] = useLocation()
  const [link, setLink] = useState<{ url: string; expiresAt: string } | null>(null)
  const [isOpen, setOpen] = useState(false)
  const invite = useDo(async (_: null) => {
    const made = await connection.ask(CREATE_INVITATION, { humanId: id })
    setLink(payloadOf(made.createInvitation, 'CreateInvitationPayload'))
  })
  const act = useDo(async (_: null) => {
    const { secret, expiresAt } = payloadOf((await connection.ask(ACT_AS, { humanId: id })).actAs, 'ActAsPayload')
    go('/')
    become(secret, expiresAt)
  })
  return (
    <li>
      <div className="plain-row">
        <Avatar entity={{ id, name, kind }} size={30} />
        <span className="grow">
          <b>{name}</b> {role === 'ADMIN' && <span className="kind">admin</span>}{' '}
          <span className="note">
            since <Moment at={createdAt} />
            {email === null && ', no address'}
          </span>
        </span>
        {erasedAt === null && (
          <>
            <Button onClick={() => invite.start(null)} isBusy={invite.isBusy} aria-label={`Invite ${name}`}>
              Invite
            </Button>
            {id !== humanId && (
              <Button
                look="quiet"
                onClick={() => act.start(null)}
                isBusy={act.isBusy}
                title={`For 30 minutes. Your messages are marked, and ${name} sees it.`}
              >
                <span className="one-line">Act as {name}</span>
              </Button>
            )}
            <IconButton
              label={`Settings of ${name}`}
              icon={isOpen ? 'cross' : 'pen'}
              aria-expanded={isOpen}
              onClick={() => setOpen(!isOpen)}
            />
          </>
        )}
      </div>
      {link !== null && (
        <Secret label={`${name}’s invitation (works once)`} value={link.url} isOnce until={link.expiresAt} />
      )}
      <Refused error={invite.error ?? act.error} />
      {isOpen && <PersonSettings id={id} name={name} />}
    </li>
  )
}

const ROLES = [
  ['MEMBER', 'Member'],
  ['ADMIN', 'Admin'],
] as const

/** The role, budget, address and sessions of a person. */
function PersonSettings({ id, name }: { id: string; name: string }) {
  const { connection } = useSession()
  const ask = useAsk(PERSON, { id })
  const [isSaved, setSaved] = useState(false)
  const save = useDo(async (values: FormData) => {
    setSaved(false)
    const role: HumanRole = values.get('role') === 'ADMIN' ? 'ADMIN' : 'MEMBER'
    payloadOf((await connection.ask(UPDATE_PERSON, { input: { id, role } })).updateHuman, 'UpdateHumanPayload')
    setSaved(true)
  })
  if (ask.data === undefined) return <Unanswered what="the person" ask={ask} />
  const { node } = ask.data
  if (node?.__typename !== 'Human') return null
  return (
    <div className="person-settings">
      <Form label={`Role of ${name}`} submit="Set role" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
        <SelectField
          label="Role"
          name="role"
          defaultValue={node.role}
          options={ROLES}
          hint="An admin may do everything that the operator may, when signed in. Another role ends the person’s sessions."
        />
        <p role="status" className="hint">
          {isSaved ? 'Saved.' : ''}
        </p>
      </Form>
      <HumanBudget humanId={id} budget={node.budget} />
      <PersonAccount person={node} />
    </div>
  )
}

function NewService() {
  const { connection } = useSession()
  const [secret, setSecret] = useState<string | null>(null)
  const create = useDo(async (values: FormData) => {
    const input = { grant: { service: { name: textIn(values, 'name') ?? '' } } }
    const made = await connection.ask(CREATE_TOKEN, { input })
    setSecret(payloadOf(made.createAccessToken, 'CreateAccessTokenPayload').secret)
  })
  return (
    <section className="block card">
      <h2>Services</h2>
      <p className="hint">With a service token, a program can trigger agents and submit results of EXTERNAL tools.</p>
      <Form
        label="New service"
        submit="Create token"
        isBusy={create.isBusy}
        error={create.error}
        onSubmit={create.start}
      >
        <TextField label="Name of the service" name="name" required placeholder="weather station" />
      </Form>
      {secret !== null && <Secret label="Token" value={secret} isOnce />}
    </section>
  )
}
