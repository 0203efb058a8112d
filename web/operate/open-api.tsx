import { useRef, useState } from 'react'
import { type ParleyError, payloadOf } from '../../client/index.ts'
import type { ConsoleReadOpenApiMutation } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { AreaField, Form, TextField, textIn } from '../ui/field.tsx'
import { HeaderFields, headersIn } from './header-fields.tsx'
import { READ_OPEN_API } from './tool-operations.ts'
import { ToolTrial } from './tool-trial.tsx'

type Operations = Extract<ConsoleReadOpenApiMutation['readOpenApi'], { __typename: 'ReadOpenApiPayload' }>['tools']
type Operation = Operations[number]

interface OpenApiProps {
  /** The names of the tools that the agent already has. */
  taken: readonly string[]
  isBusy: boolean
  error: ParleyError | null
  onSave(tools: object[]): void
}

/** Turns the operations of an OpenAPI document into HTTP tools: read, choose, try, save. */
export function OpenApi(props: OpenApiProps) {
  const { connection } = useSession()
  const [operations, setOperations] = useState<Operations | null>(null)
  const read = useDo(async (values: FormData) => {
    setOperations(null)
    const document = textIn(values, 'document')
    const input = document === null ? { url: textIn(values, 'url') } : { document }
    const made = await connection.ask(READ_OPEN_API, { input })
    setOperations(payloadOf(made.readOpenApi, 'ReadOpenApiPayload').tools)
  })
  return (
    <>
      <Form label="OpenAPI document" submit="Read" isBusy={read.isBusy} error={read.error} onSubmit={read.start}>
        <p className="hint">
          An OpenAPI document describes the operations of a service. Read it, choose the operations that the agent may
          call, and add them: each becomes a tool. Until then, nothing is saved.
        </p>
        <TextField label="URL of the document" name="url" type="url" placeholder="https://…/openapi.json" />
        <AreaField label="Or the document itself" name="document" rows={3} spellCheck={false} hint="JSON or YAML" />
      </Form>
      {operations !== null && <Choice {...props} operations={operations} />}
    </>
  )
}

/** More rows would slow down the page. The search finds the others. */
const MOST_SHOWN = 100

function Choice({ operations, taken, isBusy, error, onSave }: OpenApiProps & { operations: Operations }) {
  const box = useRef<HTMLDivElement>(null)
  const [search, setSearch] = useState('')
  const [chosen, setChosen] = useState<readonly Operation[]>([])
  const [tried, setTried] = useState<Operation | null>(null)
  const problemOf = ({ name, problem }: Operation) =>
    problem ?? (taken.includes(name) ? `The agent already has a tool with the name ${name}.` : null)
  const words = search.toLowerCase()
  const found = operations.filter(({ operation, name, description }) =>
    `${operation} ${name} ${description}`.toLowerCase().includes(words),
  )
  const values = () => new FormData(box.current?.querySelector('form') ?? undefined)
  const toggle = (operation: Operation) =>
    setChosen(chosen.includes(operation) ? chosen.filter((one) => one !== operation) : [...chosen, operation])
  return (
    <div ref={box}>
      <Form
        label="Operations"
        submit={`Add ${chosen.length} ${chosen.length === 1 ? 'tool' : 'tools'}`}
        isBusy={isBusy}
        error={error}
        onSubmit={(given) => chosen.length > 0 && onSave(chosen.map((one) => toolOf(one, given)))}
      >
        <TextField
          label={`${operations.length} operations`}
          type="search"
          placeholder="Search"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
        <ul className="rows">
          {found.slice(0, MOST_SHOWN).map((one) => (
            <li key={one.name} className="tool-row">
              <div className="grow">
                <label className="choice">
                  <input
                    type="checkbox"
                    checked={chosen.includes(one)}
                    disabled={problemOf(one) !== null}
                    onChange={() => toggle(one)}
                  />
                  <code>{one.operation}</code>
                </label>
                <p className="note">{problemOf(one) ?? one.description}</p>
              </div>
              {problemOf(one) === null && (
                <Button aria-label={`Try ${one.operation}`} onClick={() => setTried(one)}>
                  Try
                </Button>
              )}
            </li>
          ))}
        </ul>
        {found.length > MOST_SHOWN && <p className="hint">{found.length - MOST_SHOWN} more: search for them.</p>}
        <HeaderFields stored={[]} />
      </Form>
      {tried !== null && (
        <>
          <h3>
            <code>{tried.operation}</code>
          </h3>
          <ToolTrial key={tried.name} tool={() => toolOf(tried, values())} />
        </>
      )}
    </div>
  )
}

function toolOf(operation: Operation, values: FormData) {
  const { name, description, url, method, inputSchema } = operation
  const headers = headersIn(values)
  return {
    name,
    description,
    url,
    method,
    inputSchema,
    execution: 'HTTP' as const,
    mayReceiveConfidential: false,
    ...(headers === undefined ? {} : { headers }),
  }
}
