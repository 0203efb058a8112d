import { useMemo, useState } from 'react'
import { IconButton } from './button.tsx'
import { copyText } from './copy-text.ts'
import { highlighted } from './highlight.ts'

/** Code with syntax colours, and a button that copies it. */
export function CodeBlock({ code, language }: { code: string; language: string }) {
  const [isCopied, setCopied] = useState(false)
  const pieces = useMemo(() => highlighted(code, language), [code, language])
  return (
    <div className="code-block">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need the focus to scroll this region */}
      <pre tabIndex={0}>
        <code>
          {pieces.map(({ text, kind }, at) =>
            kind === null ? (
              text
            ) : (
              // biome-ignore lint/suspicious/noArrayIndexKey: streaming code only grows at its end
              <span key={at} className={`code-${kind}`}>
                {text}
              </span>
            ),
          )}
        </code>
      </pre>
      <IconButton
        label={isCopied ? 'Copied' : 'Copy the code'}
        icon={isCopied ? 'check' : 'copy'}
        onClick={() =>
          void copyText(code)
            .then(() => setCopied(true))
            .catch(() => {})
        }
        onBlur={() => setCopied(false)}
      />
    </div>
  )
}
