import { Link, useLocation } from 'wouter'
import { useSession } from '../session.tsx'
import { Empty } from '../ui/notice.tsx'
import { PageHead } from './page-head.tsx'

const ADMIN_PAGES = /^\/(people|models|usage|audit|start)(\/|$)/

/** Explains why the viewer gets no page at this URL, and links back to the spaces. */
export function NoPage() {
  const { isAdmin } = useSession()
  const [address] = useLocation()
  const isForAdmins = !isAdmin && ADMIN_PAGES.test(address)
  return (
    <>
      <PageHead title={isForAdmins ? 'Only for admins' : 'Page not found'} />
      <Empty
        icon={isForAdmins ? 'lock' : 'search'}
        title={isForAdmins ? 'Only admins can open this page' : 'There is no page at this address'}
      >
        <p>
          {isForAdmins
            ? 'People, models, usage and the audit log are managed by the admins of this server. Ask one of them for what you need.'
            : 'The address may be incomplete, or the page was removed.'}
        </p>
        <Link className="button" href="/">
          Go to your spaces
        </Link>
      </Empty>
    </>
  )
}
