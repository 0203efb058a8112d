import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentVersionFragment } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { Diff } from '../ui/diff.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'
import { Empty, Refused, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { AGENT_DRAFT, AGENT_VERSIONS, PUBLISH_DRAFT, RESTORE_VERSION } from './version-operations.ts'

const LONGEST_NOTE = 1000

/** The draft of an agent, and its versions, newest first. */
export function AgentVersions({ agentId }: { agentId: string }) {
  return (
    <>
      <Draft agentId={agentId} />
      <section className="block" aria-label="Versions">
        <h2>Versions</h2>
        <p className="hint">
          Each change of the agent’s settings or tools creates a version, which you can compare and restore. A run keeps
          its version until it ends.
        </p>
        <Pages>{(page) => <VersionRows agentId={agentId} page={page} />}</Pages>
      </section>
    </>
  )
}

function Draft({ agentId }: { agentId: string }) {
  const { connection } = useSession()
  const { data } = useAsk(AGENT_DRAFT, { id: agentId })
  const publish = useDo(async (values: FormData) => {
    const made = await connection.ask(PUBLISH_DRAFT, { input: { agentId, note: textIn(values, 'note') } })
    payloadOf(made.publishAgentDraft, 'PublishAgentDraftPayload')
  })
  const draft = data?.agent?.internals?.draft ?? null
  if (draft === null) return <Refused error={publish.error} />
  return (
    <section className="block card draft" aria-label="Draft">
      <h2>Draft</h2>
      <p className="hint">
        By {draft.author?.name ?? 'the operator'}, <Moment at={draft.createdAt} />. Runs continue with the published
        version until you publish the draft.
      </p>
      {draft.diff === '' ? <p className="hint">The draft equals the published version.</p> : <Diff text={draft.diff} />}
      <Form
        label="Publish the draft"
        submit="Publish"
        isBusy={publish.isBusy}
        error={publish.error}
        onSubmit={publish.start}
      >
        <TextField
          label="Note"
          name="note"
          maxLength={LONGEST_NOTE}
          defaultValue={draft.note ?? ''}
          placeholder="Why it was changed"
        />
      </Form>
    </section>
  )
}

function VersionRows({ agentId, page }: { agentId: string; page: PageOfList }) {
  const { after } = page
  const ask = useAsk(AGENT_VERSIONS, { id: agentId, after })
  if (ask.data === undefined) return <Unanswered what="versions" ask={ask} />
  const versions = ask.data.agent?.internals?.versions
  if (versions === undefined || (versions.edges.length === 0 && after === null))
    return (
      <Empty icon="record" title="No versions yet">
        <p>Each change of the agent’s settings and tools is kept here, can be compared, and can be restored.</p>
      </Empty>
    )
  return (
    <>
      <ol className="rows">
        {versions.edges.map(({ node }, at) => (
          <VersionRow key={node.id} version={node} isCurrent={after === null && at === 0} />
        ))}
      </ol>
      <More page={page} pageInfo={versions.pageInfo}>
        Older versions
      </More>
    </>
  )
}

function VersionRow({ version, isCurrent }: { version: ConsoleAgentVersionFragment; isCurrent: boolean }) {
  const { id, number, createdAt, author, note, diff } = version
  const { connection } = useSession()
  const restore = useDo(async (_: null) => {
    const made = await connection.ask(RESTORE_VERSION, { input: { versionId: id } })
    payloadOf(made.restoreAgentVersion, 'RestoreAgentVersionPayload')
  })
  return (
    <li className="version">
      <div className="plain-row">
        <span className="grow">
          <b>Version {number}</b> {isCurrent && <span className="kind">current</span>}
          <small>
            {author?.name ?? 'the operator'}, <Moment at={createdAt} />
            {note !== null && <q>{note}</q>}
          </small>
        </span>
        {!isCurrent && (
          <AskFirst
            title={`Restore version ${number}?`}
            submit="Restore"
            isBusy={restore.isBusy}
            error={restore.error}
            onConfirm={(close) => restore.start(null, close)}
            button={(ask) => (
              <Button aria-label={`Restore version ${number}`} onClick={ask}>
                Restore
              </Button>
            )}
          >
            <p>
              The agent gets the settings and tools of version {number} again, as a new version. The current version
              stays in the list, and runs that have begun keep theirs.
            </p>
          </AskFirst>
        )}
      </div>
      {number === 1 || diff === '' ? (
        <p className="hint">{number === 1 ? 'The first version.' : 'No difference from the previous version.'}</p>
      ) : (
        <details>
          <summary>Changes from the previous version</summary>
          <Diff text={diff} />
        </details>
      )}
    </li>
  )
}
