import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleProfileQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Button } from '../ui/button.tsx'
import { CheckField, Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { ChangeEmail } from './change-email.tsx'
import { END_SESSION, PROFILE, UPDATE_PROFILE } from './operations.ts'
import { SessionList } from './session-list.tsx'

type Viewer = ConsoleProfileQuery['viewer']

/** The viewer's own name, time zone, presence and sessions. */
export function ProfilePage() {
  const ask = useAsk(PROFILE, {})
  return (
    <>
      <PageHead title="Profile" />
      <div className="page-scroll narrow-page">
        {ask.data === undefined ? (
          <Unanswered what="your profile" ask={ask} />
        ) : (
          <>
            {ask.data.viewer.human !== null && <Person human={ask.data.viewer.human} />}
            {ask.data.viewer.human !== null && <ChangeEmail human={ask.data.viewer.human} />}
            <Sessions sessions={ask.data.viewer.sessions} />
          </>
        )}
      </div>
    </>
  )
}

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone

function Person({ human }: { human: NonNullable<Viewer['human']> }) {
  const { connection } = useSession()
  const [isSaved, setSaved] = useState(false)
  const save = useDo(async (values: FormData) => {
    setSaved(false)
    const input = {
      id: human.id,
      name: textIn(values, 'name') ?? '',
      timeZone: textIn(values, 'timeZone'),
      sharePresence: values.get('sharePresence') !== null,
    }
    payloadOf((await connection.ask(UPDATE_PROFILE, { input })).updateHuman, 'UpdateHumanPayload')
    setSaved(true)
  })
  const zones = [...new Set([human.timeZone ?? HERE, HERE, 'UTC', ...Intl.supportedValuesOf('timeZone')])]
  return (
    <section className="block card">
      <h2>You</h2>
      <Form label="Profile" submit="Save" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
        <TextField label="Name" name="name" defaultValue={human.name} required maxLength={200} />
        <SelectField
          label="Time zone"
          name="timeZone"
          defaultValue={human.timeZone ?? HERE}
          options={[
            ['', 'not set'],
            ...zones.map((zone) => [zone, zone === HERE ? `${zone} (this browser)` : zone] as const),
          ]}
          hint="Agents’ plans and reminders are shown in this time zone."
        />
        <CheckField
          label="Show others when I am online and when I am typing"
          name="sharePresence"
          defaultChecked={human.sharePresence ?? true}
        />
        <p role="status" className="hint">
          {isSaved ? 'Saved.' : ''}
        </p>
      </Form>
    </section>
  )
}

function Sessions({ sessions }: { sessions: Viewer['sessions'] }) {
  const { connection } = useSession()
  const end = useDo(async (id: string | null) => {
    payloadOf((await connection.ask(END_SESSION, { id })).endSession, 'EndSessionPayload')
  })
  return (
    <section className="block card" aria-label="Sessions">
      <h2>Where you are signed in</h2>
      <SessionList sessions={sessions} whom="you" isBusy={end.isBusy} onEnd={(id) => end.start(id)} />
      {sessions.some(({ current }) => !current) && (
        <div className="form-end">
          <Button icon="out" isBusy={end.isBusy} onClick={() => end.start(null)}>
            Sign out everywhere else
          </Button>
        </div>
      )}
      <Refused error={end.error} />
    </section>
  )
}
