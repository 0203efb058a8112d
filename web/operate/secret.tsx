import { CopyButton } from '../ui/copy-button.tsx'

interface SecretProps {
  label: string
  value: string
  /** The secret cannot be shown again. */
  isOnce?: boolean
}

/** A value to copy and pass on. */
export function Secret({ label, value, isOnce = false }: SecretProps) {
  return (
    <div className="secret">
      <span className="secret-label">{label}</span>
      <code>{value}</code>
      <CopyButton what="it" look="button" text={() => value} />
      {isOnce && <p className="hint">Shown only once. Copy it now.</p>}
    </div>
  )
}
