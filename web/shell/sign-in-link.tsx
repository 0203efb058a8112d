import { useEffect, useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { hasSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Loading, Refused } from '../ui/notice.tsx'
import { EntryCard } from './entry-card.tsx'

interface Described {
  purpose: 'SIGN_IN' | 'INVITE' | 'CONFIRM'
  /** The email address; null for an invitation that an admin passed on as a link. */
  email: string | null
  name: string
  isNew: boolean
  spaces: string[]
  inviter: string | null
}

const LIST = new Intl.ListFormat('en')

const CSRF = { 'x-parley-csrf': '1', 'content-type': 'application/json' }

/** @throws ParleyError with the server's explanation */
async function read<Answer>(path: string, init: RequestInit): Promise<Answer> {
  const answer = await fetch(addressOf(path), init).catch(() => {
    throw new ParleyError('The server cannot be reached. Try again.', 'NETWORK')
  })
  const body = (await answer.json().catch(() => ({}))) as Answer & { error?: string }
  const code = answer.status === 404 ? 'NOT_FOUND' : 'CONFLICT'
  if (!answer.ok) throw new ParleyError(body.error ?? `HTTP status ${answer.status}`, code)
  return body
}

interface SignInLinkProps {
  /** The path of the page: `/invitations/…` or `/auth/mail/…`. */
  path: string
  /** Called when the link has signed the person in and joined the spaces. */
  onSignedIn(spaceIds: string[]): void
}

/**
 * Describes an invitation or a link from an email. Uses it only after a click, because email scanners and chat programs open
 * links.
 */
export function SignInLink({ path, onSignedIn }: SignInLinkProps) {
  const [described, setDescribed] = useState<Described | null>(null)
  const [isSignedIn, setSignedIn] = useState(false)
  const [error, setError] = useState<ParleyError | null>(null)
  const [confirmed, setConfirmed] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const source = path.startsWith('/invitations/') ? `/auth${path}` : path
  useEffect(() => {
    read<Described>(source, { headers: { accept: 'application/json' } }).then(setDescribed, (failure) =>
      setError(errorOf(failure)),
    )
    void hasSession().then(setSignedIn)
  }, [source])
  async function use(name: string | null): Promise<void> {
    setBusy(true)
    try {
      const init = { method: 'POST', headers: CSRF, body: JSON.stringify(name === null ? {} : { name }) }
      const { spaceIds, email } = await read<{ spaceIds?: string[]; email?: string }>(source, init)
      if (email === undefined) onSignedIn(spaceIds ?? [])
      else setConfirmed(email)
    } catch (failure) {
      setError(errorOf(failure))
    } finally {
      setBusy(false)
    }
  }
  const back = (
    <div className="form-end">
      <a className="button" href={addressOf('/')}>
        {isSignedIn ? 'Go to your spaces' : 'Go to the sign-in page'}
      </a>
    </div>
  )
  if (confirmed !== null) return <EntryCard title={`${confirmed} is your address now`}>{back}</EntryCard>
  if (described === null && error === null)
    return (
      <EntryCard title="Reading the link…">
        <Loading what="the link" />
      </EntryCard>
    )
  if (described === null)
    return (
      <EntryCard title="This link does not work">
        <Refused error={error} />
        {error?.code === 'NOT_FOUND' && (
          <p className="hint">
            {isSignedIn
              ? 'This browser is signed in, so you may not need the link.'
              : 'The person who sent you the link, or an admin of this server, can send a new one.'}
          </p>
        )}
        {back}
      </EntryCard>
    )
  return (
    <EntryCard title={titleOf(described)}>
      <Question described={described} isSignedIn={isSignedIn} isBusy={isBusy} onUse={(name) => void use(name)} />
      <Refused error={error} />
      {error !== null && back}
    </EntryCard>
  )
}

function titleOf({ purpose, email, name, isNew }: Described): string {
  if (purpose === 'SIGN_IN') return `Sign in as ${name}`
  if (purpose === 'CONFIRM') return `Use ${email} for ${name}?`
  return isNew ? 'You are invited' : `You are invited, ${name}`
}

interface QuestionProps {
  described: Described
  isSignedIn: boolean
  isBusy: boolean
  onUse(name: string | null): void
}

function Question({ described, isSignedIn, isBusy, onUse }: QuestionProps) {
  const { purpose, email, name, isNew } = described
  const effect = (
    <p className="hint">
      You stay signed in to this browser for 30 days after your last visit. The link works only once.
      {isSignedIn && ' Somebody is already signed in to this browser, and will be signed out.'}
    </p>
  )
  if (purpose === 'CONFIRM')
    return (
      <>
        <p>After you confirm, you can sign in with this address, and notifications are sent to it.</p>
        <Answer isBusy={isBusy} onUse={onUse}>
          Confirm the address
        </Answer>
      </>
    )
  if (purpose === 'SIGN_IN')
    return (
      <>
        <p>Somebody, probably you, requested this link for {email}.</p>
        {effect}
        <Answer isBusy={isBusy} onUse={onUse}>
          Sign in
        </Answer>
      </>
    )
  return (
    <>
      <Welcome described={described} />
      {effect}
      {isNew ? (
        <Form
          label="Accept the invitation"
          submit="Join"
          isBusy={isBusy}
          error={null}
          onSubmit={(values) => onUse(textIn(values, 'name'))}
        >
          <TextField
            label="Your name"
            name="name"
            defaultValue={name}
            required
            maxLength={200}
            hint="Other people will see this name. You can change it later."
          />
        </Form>
      ) : (
        <Answer isBusy={isBusy} onUse={onUse}>
          Accept and sign in
        </Answer>
      )}
    </>
  )
}

/** Shows the inviter, the spaces, and the person who accepts. */
function Welcome({ described: { email, name, isNew, spaces, inviter } }: { described: Described }) {
  return (
    <>
      <p>
        <b dir="auto">{inviter ?? 'An admin of this server'}</b> has invited you to Parley, where people and AI agents
        share conversations.
      </p>
      {spaces.length > 0 && (
        <p dir="auto">
          {email === null ? 'You are a member of ' : 'You will join '}
          <b>{LIST.format(spaces)}</b>.
        </p>
      )}
      {!isNew && (
        <p>
          You will be signed in as <b dir="auto">{name}</b>
          {email !== null && ` (${email})`}. If you are not {name}, close this page: nothing has changed yet.
        </p>
      )}
    </>
  )
}

interface AnswerProps {
  isBusy: boolean
  onUse(name: null): void
  children: string
}

function Answer({ isBusy, onUse, children }: AnswerProps) {
  return (
    <div className="form-end">
      <Button look="primary" isBusy={isBusy} onClick={() => onUse(null)}>
        {children}
      </Button>
    </div>
  )
}
