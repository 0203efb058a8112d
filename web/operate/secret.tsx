import { CopyButton } from '../ui/copy-button.tsx'
import { Moment } from '../ui/time.tsx'

interface SecretProps {
  label: string
  value: string
  /** Whether the secret cannot be shown again. */
  isOnce?: boolean
  /** When the secret stops working. */
  until?: string
}

const isLocalAddress = (value: string) => /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/]/.test(value)

/** A value to copy and pass on. */
export function Secret({ label, value, isOnce = false, until }: SecretProps) {
  return (
    <div className="secret">
      <span className="secret-label">{label}</span>
      <code>{value}</code>
      <CopyButton what="it" look="button" text={() => value} />
      {isLocalAddress(value) && (
        <p className="hint">This link works on this computer only. For others, the operator sets PARLEY_PUBLIC_URL.</p>
      )}
      {(isOnce || until !== undefined) && (
        <p className="hint">
          {isOnce && 'Shown only once. Copy it now.'}{' '}
          {until !== undefined && (
            <>
              Valid until <Moment at={until} />.
            </>
          )}
        </p>
      )}
    </div>
  )
}
