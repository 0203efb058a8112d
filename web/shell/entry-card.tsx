import type { ReactNode } from 'react'

/** A page for people who are not signed in yet: a card with the brand and a title. */
export function EntryCard({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <p className="brand">
          <span className="brand-mark" aria-hidden="true" />
          <strong>Parley</strong>
        </p>
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  )
}
