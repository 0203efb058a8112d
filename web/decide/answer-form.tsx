import { useState } from 'react'
import { payloadOf, type ToolCall } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { AreaField, Form } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
import { InputForm } from './input-form.tsx'
import { OnlyInPerson } from './only-in-person.tsx'
import { SUBMIT_TOOL_RESULT } from './operations.ts'

/** Answers a waiting call: with a form for its schema, with yes or no, or with any text or JSON. */
export function AnswerForm({ call }: { call: ToolCall }) {
  const { resultSchema } = call
  const { connection, isHuman, actingUntil } = useSession()
  const [isFree, setFree] = useState(false)
  const answer = useDo(async (result: unknown) => {
    const { submitToolResult } = await connection.ask(SUBMIT_TOOL_RESULT, { toolCallId: call.id, result })
    payloadOf(submitToolResult, 'SubmitToolResultPayload')
  })
  if (!isHuman || call.waitsFor === 'MESSAGE') return null
  if (actingUntil !== null) return <OnlyInPerson verb="answer" />
  if (isObject(resultSchema)) {
    return (
      <InputForm
        label={`Answer ${call.toolName}`}
        schema={resultSchema}
        submit="Answer"
        isBusy={answer.isBusy}
        error={answer.error}
        onSubmit={(value) => answer.start(value)}
      />
    )
  }
  if (isFree) {
    return <FreeForm toolName={call.toolName} onCancel={() => setFree(false)} answer={answer} />
  }
  return (
    <div className="decide">
      <Button look="primary" icon="check" isBusy={answer.isBusy} onClick={() => answer.start({ approved: true })}>
        Approve
      </Button>
      <Button look="danger" icon="cross" isBusy={answer.isBusy} onClick={() => answer.start({ approved: false })}>
        Deny
      </Button>
      <Button look="quiet" onClick={() => setFree(true)}>
        Answer in words…
      </Button>
      <Refused error={answer.error} />
    </div>
  )
}

interface FreeFormProps {
  toolName: string
  onCancel(): void
  answer: ReturnType<typeof useDo<unknown, void>>
}

/** A free answer: valid JSON is sent as JSON, anything else as text. */
function FreeForm({ toolName, onCancel, answer }: FreeFormProps) {
  return (
    <Form
      label={`Answer ${toolName}`}
      submit="Answer"
      isBusy={answer.isBusy}
      error={answer.error}
      onSubmit={(values) => answer.start(meaningOf(String(values.get('result') ?? '')))}
    >
      <AreaField label="Your answer" name="result" rows={3} required autoFocus hint="Plain text or JSON." />
      <div>
        <Button look="quiet" onClick={onCancel}>
          Back to Approve and Deny
        </Button>
      </div>
    </Form>
  )
}

function meaningOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
