import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsolePersonFragment, HumanRole } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { END_SESSION } from '../profile/operations.ts'
import { SessionList } from '../profile/session-list.tsx'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { CheckField, Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Empty, Refused, Unanswered } from '../ui/notice.tsx'
import { TokensOf } from './access-lists.tsx'
import { ROLES } from './add-person.tsx'
import { HumanBudget } from './budget.tsx'
import { useMayInvite } from './invite-by-mail.tsx'
import { PERSON, UPDATE_PERSON } from './operations.ts'

const ERASE_PERSON = graphql(`
  mutation ConsoleErasePerson($input: EraseHumanInput!) {
    eraseHuman(input: $input) {
      __typename
      ... on EraseHumanPayload { erasedHumanId }
      ... on Error { message code }
    }
  }
`)

/** The role, address, sessions and budget of a person, for admins. */
export function PersonPage({ id }: { id: string }) {
  const { humanId } = useSession()
  const ask = useAsk(PERSON, { id })
  const node = ask.data?.node
  const person = node?.__typename === 'Human' && node.erasedAt === null ? node : null
  return (
    <>
      <PageHead title={person?.name ?? 'Person'} note={person?.email}>
        <Link className="button" href="/people">
          All people
        </Link>
      </PageHead>
      <div className="page-scroll narrow-page">
        {ask.data === undefined ? (
          <Unanswered what="the person" ask={ask} />
        ) : person === null ? (
          <Empty icon="people" title="Person not found">
            <p>
              Nobody has this address, or the person was removed. <Link href="/people">See all people</Link>
            </p>
          </Empty>
        ) : (
          <>
            <PersonRole person={person} />
            <PersonAddress person={person} />
            <PersonSessions person={person} />
            <TokensOf human={person} />
            <HumanBudget human={person} budget={person.budget} />
            {person.id !== humanId && <RemovePerson person={person} />}
          </>
        )}
      </div>
    </>
  )
}

interface PersonProps {
  person: ConsolePersonFragment
}

function PersonRole({ person: { id, name, role } }: PersonProps) {
  const { connection } = useSession()
  const [isSaved, setSaved] = useState(false)
  const save = useDo(async (values: FormData) => {
    setSaved(false)
    const changed: HumanRole = values.get('role') === 'ADMIN' ? 'ADMIN' : 'MEMBER'
    const input = { id, role: changed }
    payloadOf((await connection.ask(UPDATE_PERSON, { input })).updateHuman, 'UpdateHumanPayload')
    setSaved(true)
  })
  return (
    <section className="block card" aria-label="Role">
      <h2>Role</h2>
      <Form label={`Role of ${name}`} submit="Set role" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
        <SelectField
          label={`Rights of ${name}`}
          name="role"
          defaultValue={role}
          options={ROLES}
          hint={`Changing the role signs ${name} out everywhere.`}
        />
        <p role="status" className="hint">
          {isSaved ? 'Saved.' : ''}
        </p>
      </Form>
    </section>
  )
}

function PersonAddress({ person: { id, name, email } }: PersonProps) {
  const { connection } = useSession()
  const hasMail = useMayInvite()
  const [isSaved, setSaved] = useState(false)
  const save = useDo(async (values: FormData) => {
    setSaved(false)
    const input = { id, email: textIn(values, 'email') }
    payloadOf((await connection.ask(UPDATE_PERSON, { input })).updateHuman, 'UpdateHumanPayload')
    setSaved(true)
  })
  return (
    <section className="block card">
      <h2>Email address</h2>
      <Form
        label={`Address of ${name}`}
        submit="Set address"
        isBusy={save.isBusy}
        error={save.error}
        onSubmit={save.start}
      >
        <TextField
          label="Address"
          name="email"
          type="email"
          maxLength={254}
          defaultValue={email ?? ''}
          hint={
            hasMail
              ? `${name} signs in with links that are sent to this address, and gets notifications there. Leave this empty to remove the address.`
              : 'Not used yet, because this server sends no email. Leave this empty to remove the address.'
          }
        />
        <p role="status" className="hint">
          {isSaved ? 'Saved.' : ''}
        </p>
      </Form>
    </section>
  )
}

function PersonSessions({ person: { name, sessions } }: PersonProps) {
  const { connection } = useSession()
  const end = useDo(async (ids: readonly string[]) => {
    for (const id of ids) {
      const { endSession } = await connection.ask(END_SESSION, { id })
      // The session may have ended in the meantime.
      if (endSession.__typename !== 'NotFoundError') payloadOf(endSession, 'EndSessionPayload')
    }
  })
  const listed = sessions ?? []
  const others = listed.filter(({ current }) => !current).map(({ id }) => id)
  return (
    <section className="block card" aria-label={`Sessions of ${name}`}>
      <h2>Where {name} is signed in</h2>
      <SessionList sessions={listed} whom={name} isBusy={end.isBusy} onEnd={(id) => end.start([id])} />
      {others.length > 0 && (
        <>
          <p className="hint">
            If a laptop was lost, sign {name} out everywhere. Tokens stay valid: revoke them below.
          </p>
          <div className="form-end">
            <Button icon="out" isBusy={end.isBusy} onClick={() => end.start(others)}>
              {others.length < listed.length ? 'Sign out everywhere else' : 'Sign out everywhere'}
            </Button>
          </div>
        </>
      )}
      <Refused error={end.error} />
    </section>
  )
}

function RemovePerson({ person: { id, name } }: PersonProps) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const [isOpen, setOpen] = useState(false)
  const erase = useDo(async (values: FormData) => {
    const input = { id, messages: values.has('messages') }
    payloadOf((await connection.ask(ERASE_PERSON, { input })).eraseHuman, 'EraseHumanPayload')
    go('/people')
  })
  return (
    <>
      <div className="form-end">
        <Button look="danger" onClick={() => setOpen(true)}>
          Remove this person…
        </Button>
      </div>
      <Dialog title={`Remove ${name}?`} open={isOpen} onOpenChange={setOpen}>
        <p>
          {name} is signed out everywhere, leaves every space, and cannot sign in again: their address and tokens stop
          working. In old messages the name becomes “Erased”. This cannot be undone.
        </p>
        <p>If {name} signs in through an identity provider, remove the account there first.</p>
        <Form
          label={`Remove ${name}`}
          submit={`Remove ${name}`}
          look="danger"
          isBusy={erase.isBusy}
          error={erase.error}
          onSubmit={erase.start}
        >
          <CheckField
            label="Also remove their messages"
            name="messages"
            hint="Deletes the text and files of this person’s messages for everybody. If this is not selected, the messages stay."
          />
        </Form>
      </Dialog>
    </>
  )
}
