import { type ReactNode, useState } from 'react'

/** A section that is closed at first. Its content is rendered, and loads its data, only when it is opened. */
export function Folded({ title, children }: { title: string; children: ReactNode }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className="block folded-section" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <h3>{title}</h3>
      </summary>
      {isOpen && <div className="folded-body">{children}</div>}
    </details>
  )
}
