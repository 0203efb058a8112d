import { Link, useLocation } from 'wouter'
import { errorOf } from '../../client/errors.ts'
import type { Message } from '../../client/index.ts'
import { useAsk } from '../ask.ts'
import { SEARCH } from '../search/operations.ts'
import { useSession } from '../session.tsx'
import { Folded } from '../ui/folded.tsx'
import { Icon } from '../ui/icons.tsx'
import { Loading, Refused } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { FileView } from './file-view.tsx'
import { SPACE_FILES } from './operations.ts'

const SEARCHED_FILES = 20
/** With more files than this, they can be searched. */
const MOST_UNSEARCHED = 10

interface SpaceFilesProps {
  spaceId: string
  /** The loaded messages, whose files have a sender here. */
  messages: readonly Message[]
  /** Called when a message was opened. */
  onOpen(): void
}

/** The files of the messages of a space, newest first, loaded when opened. */
export function SpaceFiles(props: SpaceFilesProps) {
  return (
    <Folded title="Files of this space">
      <Pages>{(page) => <FileLines {...props} page={page} />}</Pages>
    </Folded>
  )
}

function FileLines({ spaceId, messages, page, onOpen }: SpaceFilesProps & { page: PageOfList }) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const { data, error } = useAsk(SPACE_FILES, { id: spaceId, after: page.after })
  if (error !== null) return <Refused error={errorOf(error)} />
  if (data === undefined) return <Loading what="the files" />
  if (data.space === null) return null
  const { edges, pageInfo } = data.space.files
  const messageOf = new Map(
    messages.flatMap((message) =>
      message.parts.flatMap((part) => (part.__typename === 'FilePart' ? [[part.file.id, message] as const] : [])),
    ),
  )
  /** Opens the message of the file. The API finds the message of a file only by a search for the name of the file. */
  const open = async ({ id, name }: { id: string; name: string }) => {
    const filter = { query: name, spaceId, hasFile: true, order: 'NEWEST' as const, first: SEARCHED_FILES }
    const found = messageOf.has(id) ? null : await connection.ask(SEARCH, filter).catch(() => null)
    const hit = found?.search.edges.find(({ node }) => node.file?.id === id)
    const messageId = messageOf.get(id)?.id ?? hit?.node.message.id
    onOpen()
    if (messageId !== undefined) go(`/spaces/${spaceId}#${messageId}`)
    else go(`/search?${new URLSearchParams({ q: name, space: spaceId, files: 'yes' })}`)
  }
  return (
    <>
      {edges.length === 0 && page.after === null && (
        <p className="hint">No files yet. Attach one with the paper clip, or drop it into the conversation.</p>
      )}
      {edges.length >= MOST_UNSEARCHED && page.after === null && (
        <p className="hint">
          <Link href={`/search?space=${spaceId}&files=yes`}>Search the files of this space</Link>
        </p>
      )}
      <ul className="file-list" aria-label="Files">
        {edges.map(({ node }) => (
          <li key={node.id}>
            <FileView file={node} />
            <button
              type="button"
              className="outcomes-line"
              title="Show the message"
              aria-label={`Show the message with ${node.name}`}
              onClick={() => void open(node)}
            >
              {messageOf.has(node.id) && `${messageOf.get(node.id)?.sender.name}, `}
              <Moment at={node.createdAt} />
              <Icon name="chevron" size={12} />
            </button>
          </li>
        ))}
      </ul>
      <More page={page} pageInfo={pageInfo}>
        Older files
      </More>
    </>
  )
}
