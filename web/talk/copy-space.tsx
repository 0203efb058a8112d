import { useLocation } from 'wouter'
import { payloadOf, type Space } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Form, numberIn, TextField, textIn } from '../ui/field.tsx'
import { FORK_SPACE } from './operations.ts'

/** Copies the space for the viewer alone, with copies of its agents, and opens the copy. */
export function CopySpace({ space, onCopied }: { space: Space; onCopied(): void }) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const copy = useDo(async (values: FormData) => {
    const input = { spaceId: space.id, name: textIn(values, 'name'), atSeq: numberIn(values, 'atSeq') }
    return payloadOf((await connection.ask(FORK_SPACE, { input })).forkSpace, 'ForkSpacePayload').space.id
  })
  const open = (id: string) => {
    onCopied()
    go(`/spaces/${id}`)
  }
  return (
    <>
      <p className="hint">
        Try something out in a copy, whose members are you and copies of the agents. In the copy, tools with external
        effects require approval.
      </p>
      <Form
        label="Copy this space"
        submit="Copy this space"
        isBusy={copy.isBusy}
        error={copy.error}
        onSubmit={(values) => copy.start(values, open)}
      >
        <TextField label="Name of the copy" name="name" placeholder={`${space.name} (copy)`} maxLength={200} />
        <TextField label="Up to message number" name="atSeq" type="number" min={0} hint="Empty: all messages." />
      </Form>
    </>
  )
}
