import { useState } from 'react'
import { Button, IconButton } from './button.tsx'
import { copyText } from './copy-text.ts'

interface CopyButtonProps {
  /** Returns the text to copy. Called when the button is clicked. */
  text(): string
  /** The copied content, as words that follow “Copy”. */
  what: string
  /** Use `icon` where there are many of these buttons. */
  look?: 'button' | 'icon'
}

/** Copies a text, and shows whether this succeeded. */
export function CopyButton({ text, what, look = 'icon' }: CopyButtonProps) {
  const [state, setState] = useState<'ready' | 'copied' | 'failed'>('ready')
  const label = { ready: `Copy ${what}`, copied: 'Copied', failed: 'The browser did not copy' }[state]
  const copy = () =>
    void copyText(text()).then(
      () => setState('copied'),
      () => setState('failed'),
    )
  const icon = state === 'copied' ? 'check' : 'copy'
  if (look === 'icon') return <IconButton label={label} icon={icon} onClick={copy} onBlur={() => setState('ready')} />
  return (
    <Button icon={icon} onClick={copy} onBlur={() => setState('ready')}>
      {label}
    </Button>
  )
}
