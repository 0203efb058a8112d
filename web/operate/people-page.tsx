import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button } from '../ui/button.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { Moment } from '../ui/time.tsx'
import { AccessLists } from './access-lists.tsx'
import { InviteByMail } from './invite-by-mail.tsx'
import { CREATE_HUMAN, CREATE_INVITATION, CREATE_TOKEN, HUMANS } from './operations.ts'
import { tokenFor } from './people.ts'
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
  const create = useDo(async (values: FormData) => {
    const input = { name: textIn(values, 'name') ?? '' }
    payloadOf((await connection.ask(CREATE_HUMAN, { input })).createHuman, 'CreateHumanPayload')
  })
  const people = (ask.data?.humans.edges ?? []).map(({ node }) => node)
  return (
    <section className="block card">
      <h2>People</h2>
      <Form label="New person" submit="Add" isBusy={create.isBusy} error={create.error} onSubmit={create.start}>
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          placeholder="Name of the new person"
          hint="Then invite them with a link that works for one sign-in."
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
          {people.map((person) => (
            <Person key={person.id} person={person} />
          ))}
        </ul>
      )}
    </section>
  )
}

interface PersonProps {
  person: { id: string; name: string; kind: string; createdAt: string; erasedAt: string | null }
}

function Person({ person: { id, name, kind, createdAt, erasedAt } }: PersonProps) {
  const { connection, become } = useSession()
  const [link, setLink] = useState<string | null>(null)
  const invite = useDo(async (_: null) => {
    const made = await connection.ask(CREATE_INVITATION, { humanId: id })
    setLink(payloadOf(made.createInvitation, 'CreateInvitationPayload').url)
  })
  const goOn = useDo(async (_: null) => become(await tokenFor(connection, id)))
  return (
    <li>
      <div className="plain-row">
        <Avatar entity={{ id, name, kind }} size={30} />
        <span className="grow">
          <b>{name}</b>{' '}
          <span className="note">
            since <Moment at={createdAt} />
          </span>
        </span>
        {erasedAt === null && (
          <>
            <Button onClick={() => invite.start(null)} isBusy={invite.isBusy} aria-label={`Invite ${name}`}>
              Invite
            </Button>
            <Button look="quiet" onClick={() => goOn.start(null)} isBusy={goOn.isBusy}>
              <span className="one-line">Continue as {name}</span>
            </Button>
          </>
        )}
      </div>
      {link !== null && <Secret label={`${name}’s invitation (works once)`} value={link} isOnce />}
      <Refused error={invite.error ?? goOn.error} />
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
