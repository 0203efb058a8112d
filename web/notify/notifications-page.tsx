import { useId, useState, useSyncExternalStore } from 'react'
import { Link } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleNotificationSettingsQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { useSignInWays } from '../shell/sign-in-ways.ts'
import { Button } from '../ui/button.tsx'
import { CheckField, Form, TextField } from '../ui/field.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { wordsOfDigest } from './digest-words.ts'
import { type Browser, obstacleOf } from './obstacle.ts'
import { NOTIFICATION_SETTINGS, SET_NOTIFICATION_SETTINGS } from './operations.ts'
import { canPush, isSubscribed, subscribe, unsubscribe } from './push.ts'

const LONGEST_MINUTES = 10_080

type Settings = NonNullable<ConsoleNotificationSettingsQuery['viewer']['notificationSettings']>

/** How the person is notified: on this device, by push on all devices, and by email. */
export function NotificationsPage() {
  const ask = useAsk(NOTIFICATION_SETTINGS, {})
  const { notificationSettings: settings, pushPublicKey, human } = ask.data?.viewer ?? {}
  return (
    <>
      <PageHead title="Notification settings" />
      <div className="page-scroll narrow-page">
        {ask.data === undefined ? (
          <Unanswered what="your notification settings" ask={ask} />
        ) : settings == null ? (
          <p className="hint">Only people are notified. Sign in as a person to change their settings.</p>
        ) : (
          <>
            <section className="block">
              <p className="hint">
                You are notified when a message mentions you, when a decision waits for you, and when a run that worked
                for you has failed. Each space has its own level, in its details.
              </p>
            </section>
            <ThisDevice publicKey={pushPublicKey ?? null} isOffEverywhere={!settings.push} />
            <Channels settings={settings} email={human?.email ?? null} />
          </>
        )}
      </div>
    </>
  )
}

interface ThisDeviceProps {
  publicKey: string | null
  /** The person has switched push messages off for all devices. */
  isOffEverywhere: boolean
}

function ThisDevice({ publicKey, isOffEverywhere }: ThisDeviceProps) {
  const { connection, humanId } = useSession()
  const stateId = useId()
  const browser = useBrowser()
  const obstacle = obstacleOf(publicKey, browser)
  const [isSubscriber, setSubscriber] = useState(() => isSubscribed(humanId))
  const isOn = isSubscriber && obstacle === null
  const change = useDo(async (turnOn: boolean) => {
    if (turnOn) await subscribe(connection, publicKey ?? '', humanId ?? '')
    else await unsubscribe(connection)
    setSubscriber(turnOn)
  })
  return (
    <section className="block card" aria-label="This device">
      <h2>Push messages on this device</h2>
      <div id={stateId} role="status">
        {obstacle !== null ? (
          <>
            <p>
              <b>Push is off.</b> {obstacle.reason}
            </p>
            <p className="hint">What to do: {obstacle.remedy}</p>
          </>
        ) : isOn ? (
          <p>
            This device receives push messages.
            {isOffEverywhere && ' But push messages are switched off for all devices below.'}
          </p>
        ) : (
          <p>
            This device receives no push messages.
            {browser.permission === 'default' && ' Your browser will ask whether you allow them.'}
          </p>
        )}
      </div>
      <div>
        <Button
          look={isOn ? 'plain' : 'primary'}
          icon="bell"
          isBusy={change.isBusy}
          disabled={obstacle !== null}
          aria-describedby={stateId}
          onClick={() => change.start(!isOn)}
        >
          {isOn ? 'Disable on this device' : 'Enable on this device'}
        </Button>
      </div>
      <Refused error={change.error} />
    </section>
  )
}

const isApple = () =>
  /iPhone|iPad|iPod/.test(navigator.userAgent) || (/Mac/.test(navigator.userAgent) && navigator.maxTouchPoints > 1)

/** Describes this browser. Updated when the person returns from the browser's settings. */
export function useBrowser(): Browser {
  const permission = useSyncExternalStore(watchPermission, readPermission)
  return { canPush: canPush(), isSecure: window.isSecureContext, isApple: isApple(), permission }
}

const readPermission = (): NotificationPermission => ('Notification' in window ? Notification.permission : 'denied')

function watchPermission(onChange: () => void): () => void {
  const ended = new AbortController()
  window.addEventListener('focus', onChange, { signal: ended.signal })
  navigator.permissions
    ?.query({ name: 'notifications' })
    .then((status) => status.addEventListener('change', onChange, { signal: ended.signal }))
    .catch(() => {})
  return () => ended.abort()
}

function Channels({ settings, email }: { settings: Settings; email: string | null }) {
  const { connection, isAdmin } = useSession()
  const sendsMail = useSignInWays()?.mail ?? true
  const mayMail = sendsMail && email !== null
  const [mail, setMail] = useState(settings.mail)
  const [minutes, setMinutes] = useState(String(settings.notifyAfterMinutes))
  const [isSaved, setSaved] = useState(false)
  const save = useDo(async (values: FormData) => {
    setSaved(false)
    // Fields that have no effect at present keep their saved values.
    const input = {
      push: values.has('push'),
      ...(mayMail ? { mail } : {}),
      ...(mayMail && mail ? { notifyAfterMinutes: Number(minutes) } : {}),
    }
    const { setNotificationSettings } = await connection.ask(SET_NOTIFICATION_SETTINGS, { input })
    payloadOf(setNotificationSettings, 'SetNotificationSettingsPayload')
    setSaved(true)
  })
  return (
    <section className="block card">
      <h2>How you are notified</h2>
      <Form label="Channels" submit="Save" isBusy={save.isBusy} error={save.error} onSubmit={save.start}>
        <CheckField
          label="Push messages, on every device where you enabled them"
          name="push"
          defaultChecked={settings.push}
        />
        {sendsMail ? (
          <>
            <CheckField
              label="Email"
              name="mail"
              checked={mayMail && mail}
              disabled={!mayMail}
              onChange={({ target }) => setMail(target.checked)}
              hint={
                email === null ? (
                  <>
                    You have no email address. Add one in your <Link href="/profile">profile</Link>.
                  </>
                ) : (
                  `To ${email}. An email contains only links, and no message text or names.`
                )
              }
            />
            <TextField
              label="Minutes until an email is sent"
              name="notifyAfterMinutes"
              type="number"
              required
              disabled={!mayMail || !mail}
              min={0}
              max={LONGEST_MINUTES}
              step={1}
              value={minutes}
              onChange={({ target }) => setMinutes(target.value)}
              hint={wordsOfDigest({ mail: mayMail && mail, minutes: minutes === '' ? Number.NaN : Number(minutes) })}
            />
          </>
        ) : (
          <p className="hint">
            This server sends no email.{isAdmin && ' The operator can set PARLEY_SMTP_URL and PARLEY_MAIL_FROM.'}
          </p>
        )}
        <p role="status" className="hint">
          {isSaved ? 'Saved.' : ''}
        </p>
      </Form>
    </section>
  )
}
