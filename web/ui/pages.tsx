import { Fragment, type ReactNode, useState } from 'react'
import { Button } from './button.tsx'

/** One page of a long list: its cursor, and how to load the next one. */
export interface PageOfList {
  after: string | null
  isLast: boolean
  onMore(after: string): void
}

/** Shows a long list as a growing number of pages: one at first, and another after each click on “more”. */
export function Pages({ children }: { children(page: PageOfList): ReactNode }) {
  const [pages, setPages] = useState<readonly (string | null)[]>([null])
  return pages.map((after, at) => (
    <Fragment key={after ?? 'first'}>
      {children({ after, isLast: at === pages.length - 1, onMore: (next) => setPages([...pages, next]) })}
    </Fragment>
  ))
}

interface MoreProps {
  page: PageOfList
  pageInfo: { hasNextPage: boolean; endCursor: string | null }
  children: string
}

/** Shown below the last loaded page if there is another page. */
export function More({ page: { isLast, onMore }, pageInfo: { hasNextPage, endCursor }, children }: MoreProps) {
  if (!isLast || !hasNextPage || endCursor === null) return null
  return <Button onClick={() => onMore(endCursor)}>{children}</Button>
}
