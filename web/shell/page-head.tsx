import { createContext, type ReactNode, use, useEffect } from 'react'
import { IconButton } from '../ui/button.tsx'

/** Opens the sidebar, which is hidden on narrow screens. */
export const SideBarContext = createContext<{ open(): void }>({ open: () => {} })

interface PageHeadProps {
  title: string
  note?: string | null | undefined
  children?: ReactNode
}

/** The title of a page, in its header and in the browser's title. */
export function PageHead({ title, note, children }: PageHeadProps) {
  const sideBar = use(SideBarContext)
  useEffect(() => {
    document.body.dataset['page'] = title
    document.dispatchEvent(new Event('page-title'))
  }, [title])
  return (
    <header className="page-head">
      <IconButton label="Open the sidebar" icon="menu" className="only-narrow" onClick={sideBar.open} />
      <div className="page-title">
        <h1 dir="auto">{title}</h1>
        {note && (
          <p className="note" dir="auto">
            {note}
          </p>
        )}
      </div>
      <div className="page-verbs">{children}</div>
    </header>
  )
}
