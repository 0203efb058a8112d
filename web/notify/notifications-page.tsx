import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Button } from '../ui/button.tsx'
import { CheckField, Form, TextField } from '../ui/field.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { NOTIFICATION_SETTINGS, SET_NOTIFICATION_SETTINGS } from './operations.ts'
import { canPush, isSubscribed, subscribe, unsubscribe } from './push.ts'

const LONGEST_MINUTES = 10_080

/** How the person is notified: on this device, by push on all devices, and by email. */
export function NotificationsPage() {
  const ask = useAsk(NOTIFICATION_SETTINGS, {})
  const settings = ask.data?.viewer.notificationSettings
  return (
    <>
      <PageHead title="Notifications" />
      <div className="page-scroll narrow-page">
        {ask.data === undefined ? (
          <Unanswered what="your notifications" ask={ask} />
        ) : settings == null ? (
          <p className="hint">Only people are notified. Sign in as a person to change their settings.</p>
        ) : (
          <>
            <p className="hint">
              You are notified of messages that mention you, of decisions that wait for you, and of failed runs that
              worked for you. Change the level of a space in its details.
            </p>
            <ThisDevice publicKey={ask.data.viewer.pushPublicKey ?? null} />
            <Channels settings={settings} />
          </>
        )}
      </div>
    </>
  )
}

function ThisDevice({ publicKey }: { publicKey: string | null }) {
  const { connection, humanId } = useSession()
  const [isOn, setOn] = useState(() => canPush() && isSubscribed(humanId))
  const change = useDo(async (turnOn: boolean) => {
    if (turnOn) await subscribe(connection, publicKey ?? '', humanId ?? '')
    else await unsubscribe(connection)
    setOn(turnOn)
  })
  return (
    <section className="block card" aria-label="This device">
      <h2>This device</h2>
      {publicKey === null || !canPush() ? (
        <p className="hint">
          {publicKey === null
            ? 'This server cannot send push messages.'
            : 'This browser cannot receive push messages here. They need https. On an iPhone or iPad, first add Parley to the home screen.'}
        </p>
      ) : (
        <>
          <p>{isOn ? 'This device receives push messages.' : 'This device receives no push messages.'}</p>
          <Button
            look={isOn ? 'plain' : 'primary'}
            icon="bell"
            isBusy={change.isBusy}
            onClick={() => change.start(!isOn)}
          >
            {isOn ? 'Disable on this device' : 'Enable on this device'}
          </Button>
        </>
      )}
      <Refused error={change.error} />
    </section>
  )
}

function Channels({ settings }: { settings: { push: boolean; mail: boolean; notifyAfterMinutes: number } }) {
  const { connection } = useSession()
  const [isSaved, setSaved] = useState(false)
  const save = useDo(async (values: FormData) => {
    setSaved(false)
    const input = {
      push: values.has('push'),
      mail: values.has('mail'),
      notifyAfterMinutes: Number(values.get('notifyAfterMinutes')),
    }
    const { setNotificationSettings } = await connection.ask(SET_NOTIFICATION_SETTINGS, { input })
    payloadOf(setNotificationSettings, 'SetNotificationSettingsPayload')
    setSaved(true)
  })
  return (
    <section className="block card">
      <h2>Channels</h2>
      <Form label="Channels" submit="Save" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
        <CheckField
          label="Push messages on the devices where you enabled them"
          name="push"
          defaultChecked={settings.push}
        />
        <CheckField
          label="Mail"
          name="mail"
          defaultChecked={settings.mail}
          hint="Needs your email address. An email contains only links, and no message text or names."
        />
        <TextField
          label="Minutes until an email is sent"
          name="notifyAfterMinutes"
          type="number"
          required
          min={0}
          max={LONGEST_MINUTES}
          step={1}
          defaultValue={settings.notifyAfterMinutes}
          hint="Only for notices that are still open then."
        />
        <p role="status" className="hint">
          {isSaved ? 'Saved.' : ''}
        </p>
      </Form>
    </section>
  )
}
