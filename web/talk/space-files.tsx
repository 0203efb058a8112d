import { errorOf } from '../../client/errors.ts'
import { useAsk } from '../ask.ts'
import { Folded } from '../ui/folded.tsx'
import { Loading, Refused } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { FileView } from './file-view.tsx'
import { SPACE_FILES } from './operations.ts'

/** The files of the messages of a space, newest first, loaded when opened. */
export function SpaceFiles({ spaceId }: { spaceId: string }) {
  return (
    <Folded title="Files of this space">
      <Pages>{(page) => <FileLines spaceId={spaceId} page={page} />}</Pages>
    </Folded>
  )
}

function FileLines({ spaceId, page }: { spaceId: string; page: PageOfList }) {
  const { data, error } = useAsk(SPACE_FILES, { id: spaceId, after: page.after })
  if (error !== null) return <Refused error={errorOf(error)} />
  if (data === undefined) return <Loading what="the files" />
  if (data.space === null) return null
  const { edges, pageInfo } = data.space.files
  return (
    <>
      {edges.length === 0 && page.after === null && (
        <p className="hint">None yet. Attach a file to a message, drop one on the conversation, or paste one.</p>
      )}
      <ul className="file-list" aria-label="Files">
        {edges.map(({ node }) => (
          <li key={node.id}>
            <FileView file={node} />
            <small className="note">
              <Moment at={node.createdAt} />
            </small>
          </li>
        ))}
      </ul>
      <More page={page} pageInfo={pageInfo}>
        Older files
      </More>
    </>
  )
}
