import { Fragment, type ReactNode, useState } from 'react'
import { Button } from './button.tsx'

/** One page of a long list: what it comes after, and how the next one is asked for. */
export interface PageOfList {
  after: string | null
  isLast: boolean
  onMore(after: string): void
}

/** A long list, page under page: one to begin with, another for each time that one asks for more. */
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

/** Under the last page of a list: the way to the next one, where there is one. */
export function More({ page: { isLast, onMore }, pageInfo: { hasNextPage, endCursor }, children }: MoreProps) {
  if (!isLast || !hasNextPage || endCursor === null) return null
  return <Button onClick={() => onMore(endCursor)}>{children}</Button>
}
