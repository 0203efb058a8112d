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

/** A value to copy and pass on. */
export function Secret({ label, value, isOnce = false, until }: SecretProps) {
  return (
    <div className="secret">
      <span className="secret-label">{label}</span>
      <code>{value}</code>
      <CopyButton what="it" look="button" text={() => value} />
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
