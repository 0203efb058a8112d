import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleHumansQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button } from '../ui/button.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { AccessLists } from './access-lists.tsx'
import { AddPerson, InvitePerson } from './add-person.tsx'
import { MailStatus } from './mail-status.tsx'
import { OpenInvitations } from './open-invitations.tsx'
import { ACT_AS, CREATE_TOKEN, HUMANS } from './operations.ts'
import { Secret } from './secret.tsx'

/** Manages people, services and their access. */
export function PeoplePage() {
  const [isAdding, setAdding] = useState(false)
  return (
    <>
      <PageHead title="People and access">
        <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
          Add person
        </Button>
      </PageHead>
      <div className="page-scroll">
        <MailStatus />
        <People />
        <OpenInvitations />
        <NewService />
        <AccessLists />
      </div>
      <AddPerson open={isAdding} onOpenChange={setAdding} />
    </>
  )
}

function People() {
  const [search, setSearch] = useState('')
  return (
    <section className="block card" aria-label="People">
      <h2>People</h2>
      <input
        type="search"
        className="search"
        aria-label="Search people"
        placeholder="Search by name"
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      <Pages key={search}>{(page) => <PeopleRows search={search} page={page} />}</Pages>
    </section>
  )
}

function PeopleRows({ search, page }: { search: string; page: PageOfList }) {
  const { after } = page
  const ask = useAsk(HUMANS, { search: search === '' ? null : search, after })
  if (ask.data === undefined) return <Unanswered what="people" ask={ask} />
  const { edges, pageInfo } = ask.data.humans
  return (
    <>
      <ul className="rows">
        {edges.length === 0 && after === null && (
          <li className="hint">{search === '' ? 'Nobody yet: begin with “Add person”.' : 'Nobody has this name.'}</li>
        )}
        {edges.map(({ node }) => (
          <Person key={node.id} person={node} />
        ))}
      </ul>
      <More page={page} pageInfo={pageInfo}>
        More people
      </More>
    </>
  )
}

interface PersonProps {
  person: ConsoleHumansQuery['humans']['edges'][number]['node']
}

function Person({ person: { id, name, kind, role, email, createdAt, erasedAt } }: PersonProps) {
  const { connection, become, humanId, viewer } = useSession()
  const [, go] = useLocation()
  const [isInviting, setInviting] = useState(false)
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
          {erasedAt === null ? (
            <Link href={`/people/${id}`}>
              <b>{name}</b>
            </Link>
          ) : (
            <b>{name}</b>
          )}{' '}
          {role === 'ADMIN' && <span className="kind">admin</span>}{' '}
          <span className="note">
            since <Moment at={createdAt} />
            {email === null && ', no email'}
          </span>
        </span>
        {erasedAt === null && (
          <span className="block-verbs">
            <Button onClick={() => setInviting(true)} aria-label={`Invite ${name}`}>
              Invite
            </Button>
            {id !== humanId && (
              <Button
                look="quiet"
                onClick={() => act.start(null)}
                isBusy={act.isBusy}
                aria-label={`Act as ${name}`}
                title={
                  viewer.viewer?.scope === 'ADMIN'
                    ? `For 30 minutes. The audit log records what you do, and ${name} sees this session under Profile.`
                    : `For 30 minutes. Your messages show your name next to ${name}’s, and ${name} sees this session under Profile.`
                }
              >
                Act as
              </Button>
            )}
            <Link className="icon-button" href={`/people/${id}`} aria-label={`Settings of ${name}`}>
              <Icon name="pen" />
            </Link>
          </span>
        )}
      </div>
      <Refused error={act.error} />
      <InvitePerson whom={{ id, name, email }} open={isInviting} onOpenChange={setInviting} />
    </li>
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
      <p className="hint">
        A program signs in with a service token, triggers agents with it, and submits the results of tools that a
        service executes.
      </p>
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
