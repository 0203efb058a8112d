import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleTryToolMutation, ToolInput } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { InputForm } from '../decide/input-form.tsx'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Json } from '../ui/json.tsx'
import { Refused } from '../ui/notice.tsx'
import { TRY_TOOL } from './tool-operations.ts'

type Tried = Extract<ConsoleTryToolMutation['tryTool'], { __typename: 'TryToolPayload' }>

interface ToolTrialProps {
  /** Reads the tool from the form. @throws ParleyError if a field cannot be read */
  tool(): ToolInput
}

/** Calls a tool before an agent gets it. This really sends the request. */
export function ToolTrial({ tool: read }: ToolTrialProps) {
  const { connection } = useSession()
  const [tool, setTool] = useState<ToolInput | null>(null)
  const [tried, setTried] = useState<Tried | null>(null)
  const open = useDo(async () => {
    setTried(null)
    setTool(read())
  })
  const call = useDo(async (input: unknown) => {
    setTried(null)
    const made = await connection.ask(TRY_TOOL, { input: { tool: read(), input: input ?? {} } })
    setTried(payloadOf(made.tryTool, 'TryToolPayload'))
  })
  return (
    <section className="tool-trial" aria-label="Trial call">
      <Button icon="send" onClick={() => open.start(undefined)}>
        Try it
      </Button>
      <Refused error={open.error} />
      {tool !== null && (
        <>
          <p className="hint">
            Fill in the input that the model would send, then click <em>Call</em>. The request is actually sent, with
            the headers entered here. Stored headers are not sent.
          </p>
          <InputForm
            label="Input of the trial call"
            schema={tool.inputSchema as Record<string, unknown>}
            submit="Call"
            isBusy={call.isBusy}
            error={call.error}
            onSubmit={call.start}
          />
        </>
      )}
      {tried !== null && <Result tried={tried} />}
    </section>
  )
}

function Result({ tried: { ok, output, error, durationMs } }: { tried: Tried }) {
  return (
    <div role="status">
      <p className={ok ? 'hint' : 'refused'}>
        {ok
          ? `Worked, in ${durationMs} ms.`
          : `Failed: ${error} Correct the URL, the headers or the input, then call again.`}
      </p>
      {output !== null && <Json label="Output" value={output} />}
    </div>
  )
}
