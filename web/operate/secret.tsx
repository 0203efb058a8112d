import { useState } from 'react'
import { Button } from '../ui/button.tsx'

interface SecretProps {
  label: string
  value: string
  /** The secret cannot be shown again. */
  isOnce?: boolean
}

/** A value to copy and pass on. */
export function Secret({ label, value, isOnce = false }: SecretProps) {
  const [isCopied, setCopied] = useState(false)
  return (
    <div className="secret">
      <span className="secret-label">{label}</span>
      <code>{value}</code>
      <Button
        icon="copy"
        onClick={() => {
          void navigator.clipboard?.writeText(value).then(() => setCopied(true))
        }}
      >
        {isCopied ? 'Copied' : 'Copy'}
      </Button>
      {isOnce && <p className="hint">Shown only once. Copy it now.</p>}
    </div>
  )
}
