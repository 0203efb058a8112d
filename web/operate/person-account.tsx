import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { ConsolePersonFragment } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { END_SESSION } from '../profile/operations.ts'
import { SessionList } from '../profile/session-list.tsx'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { CheckField, Form, TextField, textIn } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
import { UPDATE_PERSON } from './operations.ts'

const ERASE_PERSON = graphql(`
  mutation ConsoleErasePerson($input: EraseHumanInput!) {
    eraseHuman(input: $input) {
      __typename
      ... on EraseHumanPayload { erasedHumanId }
      ... on Error { message code }
    }
  }
`)

interface PersonProps {
  person: ConsolePersonFragment
}

/** A person's address and sessions, and the button that removes the person. */
export function PersonAccount({ person }: PersonProps) {
  const { humanId } = useSession()
  return (
    <>
      <PersonAddress person={person} />
      <PersonSessions person={person} />
      {person.id !== humanId && <RemovePerson person={person} />}
    </>
  )
}

function PersonAddress({ person: { id, name, email } }: PersonProps) {
  const { connection } = useSession()
  const [isSaved, setSaved] = useState(false)
  const save = useDo(async (values: FormData) => {
    setSaved(false)
    const input = { id, email: textIn(values, 'email') }
    payloadOf((await connection.ask(UPDATE_PERSON, { input })).updateHuman, 'UpdateHumanPayload')
    setSaved(true)
  })
  return (
    <Form
      label={`Address of ${name}`}
      submit="Set address"
      isBusy={save.isBusy}
      error={save.error}
      onSubmit={save.start}
    >
      <TextField
        label="E-mail address"
        name="email"
        type="email"
        maxLength={254}
        defaultValue={email ?? ''}
        hint="For sign-in by email, and for notifications. Empty for none."
      />
      <p role="status" className="hint">
        {isSaved ? 'Saved.' : ''}
      </p>
    </Form>
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
    <section className="block" aria-label={`Sessions of ${name}`}>
      <h3>Where {name} is signed in</h3>
      <SessionList sessions={listed} whom={name} isBusy={end.isBusy} onEnd={(id) => end.start([id])} />
      {others.length > 0 && (
        <>
          <Button icon="out" isBusy={end.isBusy} onClick={() => end.start(others)}>
            {others.length < listed.length ? 'Sign out everywhere else' : 'Sign out everywhere'}
          </Button>
          <p className="hint">For instance after a laptop was lost. Tokens stay valid: revoke them under Tokens.</p>
        </>
      )}
      <Refused error={end.error} />
    </section>
  )
}

function RemovePerson({ person: { id, name } }: PersonProps) {
  const { connection } = useSession()
  const [isOpen, setOpen] = useState(false)
  const erase = useDo(async (values: FormData) => {
    const input = { id, messages: values.has('messages') }
    payloadOf((await connection.ask(ERASE_PERSON, { input })).eraseHuman, 'EraseHumanPayload')
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
            hint="Their messages lose their content and files, for everybody. Otherwise the messages stay."
          />
        </Form>
      </Dialog>
    </>
  )
}
