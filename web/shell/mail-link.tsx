import { useEffect, useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import { ParleyError } from '../../client/index.ts'
import { addressOf } from '../location.ts'
import { Button } from '../ui/button.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'

interface Described {
  purpose: 'SIGN_IN' | 'INVITE' | 'CONFIRM'
  email: string
  name: string
  isNew: boolean
  spaces: string[]
}

const CSRF = { 'x-parley-csrf': '1', 'content-type': 'application/json' }

/** @throws ParleyError with the server's explanation */
async function read<Answer>(path: string, init: RequestInit): Promise<Answer> {
  const answer = await fetch(addressOf(path), init).catch(() => {
    throw new ParleyError('The server cannot be reached. Try again.', 'NETWORK')
  })
  const body = (await answer.json().catch(() => ({}))) as Answer & { error?: string }
  if (!answer.ok) throw new ParleyError(body.error ?? `HTTP status ${answer.status}`, 'NOT_FOUND')
  return body
}

interface MailLinkProps {
  path: string
  /** The link has signed the person in and joined spaces. */
  onSignedIn(spaceIds: string[]): void
}

/** Describes the link from an email, and uses it only after a click, because email scanners open links. */
export function MailLink({ path, onSignedIn }: MailLinkProps) {
  const [described, setDescribed] = useState<Described | null>(null)
  const [error, setError] = useState<ParleyError | null>(null)
  const [confirmed, setConfirmed] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    read<Described>(path, { headers: { accept: 'application/json' } }).then(setDescribed, (failure) =>
      setError(errorOf(failure)),
    )
  }, [path])
  async function use(name: string | null): Promise<void> {
    setBusy(true)
    try {
      const init = { method: 'POST', headers: CSRF, body: JSON.stringify(name === null ? {} : { name }) }
      const { spaceIds, email } = await read<{ spaceIds?: string[]; email?: string }>(path, init)
      if (email === undefined) onSignedIn(spaceIds ?? [])
      else setConfirmed(email)
    } catch (failure) {
      setError(errorOf(failure))
    } finally {
      setBusy(false)
    }
  }
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <p className="brand">
          <span className="brand-mark" aria-hidden="true" />
          <strong>Parley</strong>
        </p>
        {confirmed !== null ? (
          <h1>{confirmed} is your address now</h1>
        ) : described === null ? (
          <h1>{error === null ? 'Reading the link…' : 'This link does not work'}</h1>
        ) : (
          <Question described={described} isBusy={isBusy} onUse={(name) => void use(name)} />
        )}
        <Refused error={error} />
        {(error !== null || confirmed !== null) && (
          <div className="form-end">
            <a className="button" href={addressOf('/')}>
              Go to the console
            </a>
          </div>
        )}
      </div>
    </main>
  )
}

interface QuestionProps {
  described: Described
  isBusy: boolean
  onUse(name: string | null): void
}

function Question({ described: { purpose, email, name, isNew, spaces }, isBusy, onUse }: QuestionProps) {
  if (purpose === 'INVITE' && isNew)
    return (
      <>
        <h1>You are invited</h1>
        <p>
          {spaces.length === 0
            ? 'Choose the name that others see.'
            : `You join ${spaces.join(', ')}. Choose the name that others see.`}
        </p>
        <Form
          label="Accept the invitation"
          submit="Join"
          isBusy={isBusy}
          error={null}
          onSubmit={(values) => onUse(textIn(values, 'name'))}
        >
          <TextField label="Your name" name="name" defaultValue={name} required maxLength={200} />
        </Form>
      </>
    )
  const [title, button] = {
    SIGN_IN: [`Sign in as ${name}`, 'Sign in'],
    INVITE: [`You are invited, ${name}`, 'Join'],
    CONFIRM: [`Use ${email} for ${name}?`, 'Confirm the address'],
  }[purpose] as [string, string]
  return (
    <>
      <h1>{title}</h1>
      <p>
        {purpose === 'CONFIRM'
          ? 'You can sign in with this address and get notifications there.'
          : `This signs you in to this browser, as ${email}. The link works once.`}
      </p>
      <div className="form-end">
        <Button look="primary" isBusy={isBusy} onClick={() => onUse(null)}>
          {button}
        </Button>
      </div>
    </>
  )
}
