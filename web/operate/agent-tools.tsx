import { useRef, useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type {
  ConsoleAgentSettingsFragment,
  ConsoleToolFragment,
  ToolExecution,
  ToolInput,
} from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { AreaField, CheckField, Form, numberIn, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Json } from '../ui/json.tsx'
import { Empty, Refused } from '../ui/notice.tsx'
import { HeaderFields, headersIn } from './header-fields.tsx'
import { jsonIn } from './json-input.ts'
import { McpServers } from './mcp-servers.tsx'
import { OpenApi } from './open-api.tsx'
import { UPDATE_AGENT } from './operations.ts'
import { policyInputOf } from './policy-input.ts'
import { isPrivateAddress } from './private-address.ts'
import { RemoteAgent } from './remote-agent.tsx'
import { SchemaFields } from './schema-fields.tsx'
import { rowsOf } from './schema-rows.ts'
import { ToolNameField } from './tool-name-field.tsx'
import { ToolTrial } from './tool-trial.tsx'

type Tool = ConsoleToolFragment
type Agent = ConsoleAgentSettingsFragment

const EXECUTIONS = [
  ['SPACE', 'A person in the space answers'],
  ['EXTERNAL', 'A service submits the result'],
  ['HTTP', 'The server calls a URL'],
  ['INTERNAL', 'Nothing is executed: the input is shown'],
] as const

/** The effect of a call, by the way in which it is executed. */
const EXECUTION_HINTS: Record<ToolExecution, string> = {
  SPACE: 'The call appears in the space as a form. A member fills it in, and the agent continues with the answer.',
  EXTERNAL: 'The call waits until a service with a token submits the result through the API (submitToolResult).',
  HTTP: 'Parley sends the input to the URL below, and the agent continues with the response.',
  INTERNAL: 'Nothing is called. Members see the input, e.g. a table, if you show calls in the space below.',
}

const FIRST_SCHEMA = { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] }

const HOUR_SECONDS = 3600
/** Four digits are enough to convert the value back to the same number of seconds. */
const hoursOf = (seconds: number) => Number((seconds / HOUR_SECONDS).toFixed(4))

const METHODS = [
  ['', 'POST of the whole input'],
  ['GET', 'GET'],
  ['POST', 'POST'],
  ['PUT', 'PUT'],
  ['PATCH', 'PATCH'],
  ['DELETE', 'DELETE'],
] as const

/** The agent's custom tools and MCP servers, and the agent on another server that it represents. */
export function AgentTools({ agent }: { agent: Agent }) {
  const { connection } = useSession()
  const [edited, setEdited] = useState<Tool | 'new' | null>(null)
  const [isImporting, setImporting] = useState(false)
  const tools = agent.internals?.tools ?? []
  const save = useDo(async (next: object) => {
    const made = await connection.ask(UPDATE_AGENT, { input: { id: agent.id, ...next } })
    payloadOf(made.updateAgent, 'UpdateAgentPayload')
    setEdited(null)
    setImporting(false)
  })
  const keep = (others: Tool[], more: object[] = []) => save.start({ tools: [...others.map(inputOf), ...more] })
  const remote = agent.internals?.remote ?? null
  return (
    <>
      {remote !== null && (
        <RemoteAgent
          agentId={agent.id}
          remote={remote}
          isBusy={save.isBusy}
          error={save.error}
          onSave={(changed) => save.start({ remote: changed })}
        />
      )}
      <section className="block">
        <div className="block-head">
          <h2>Tools</h2>
          <div className="block-verbs">
            <Button icon="plus" onClick={() => setImporting(true)}>
              From OpenAPI
            </Button>
            <Button icon="plus" onClick={() => setEdited('new')}>
              New tool
            </Button>
          </div>
        </div>
        {tools.length > 0 && (
          <p className="hint">
            What {agent.name} can do besides posting, reading and remembering. A change applies to runs that start after
            it.
          </p>
        )}
        {tools.length === 0 && (
          <Empty icon="wrench" title="No custom tools">
            <p>
              The agent can post, read and remember. A custom tool lets it ask people, call a service, or show
              something: begin with <em>New tool</em>, or take the operations of a service <em>From OpenAPI</em>.
            </p>
          </Empty>
        )}
        <ul className="rows">
          {tools.map((tool) => (
            <li key={tool.name} className="tool-row">
              <div className="grow">
                <b>
                  <code>{tool.name}</code>
                </b>{' '}
                {tool.approval !== null && (
                  <span className="kind">
                    {tool.approval.quorum} {tool.approval.quorum === 1 ? 'approval' : 'approvals'}
                  </span>
                )}
                <p>{tool.description}</p>
                <p className="note">{EXECUTIONS.find(([execution]) => execution === tool.execution)?.[1]}</p>
                <InputOfTool schema={tool.inputSchema} />
              </div>
              <Button onClick={() => setEdited(tool)}>Edit</Button>
              <AskFirst
                title={`Remove ${tool.name}?`}
                submit="Remove"
                isBusy={save.isBusy}
                error={save.error}
                onConfirm={() => keep(tools.filter((one) => one !== tool))}
                button={(ask) => <IconButton label={`Remove ${tool.name}`} icon="cross" onClick={ask} />}
              >
                <p>
                  {agent.name} can no longer call this tool, and its standing grants end.{' '}
                  {tool.headerNames.length > 0
                    ? 'Its headers are deleted: to get the tool back, create it again.'
                    : 'To get the tool back, restore an earlier version of the agent under Versions.'}
                </p>
              </AskFirst>
            </li>
          ))}
        </ul>
        <Refused error={edited === null && !isImporting ? save.error : null} />
      </section>
      <McpServers
        agentId={agent.id}
        servers={agent.internals?.mcpServers ?? []}
        onSave={(mcpServers, onSaved) => save.start({ mcpServers }, onSaved)}
      />
      <Dialog title="Tools from OpenAPI" open={isImporting} onOpenChange={setImporting}>
        <OpenApi
          taken={tools.map(({ name }) => name)}
          isBusy={save.isBusy}
          error={save.error}
          onSave={(made) => keep(tools, made)}
        />
      </Dialog>
      <Dialog
        title={edited === 'new' ? 'New tool' : 'Edit tool'}
        open={edited !== null}
        onOpenChange={(open) => !open && setEdited(null)}
      >
        <ToolForm
          tool={edited === 'new' ? null : edited}
          isBusy={save.isBusy}
          error={save.error}
          onSave={(tool) =>
            keep(
              tools.filter(({ name }) => edited === null || edited === 'new' || name !== edited.name),
              [tool],
            )
          }
        />
      </Dialog>
    </>
  )
}

/** The names of a tool's inputs. Shows the schema as JSON if it contains more than fields. */
function InputOfTool({ schema }: { schema: unknown }) {
  const rows = rowsOf(schema)
  if (rows === null) return <Json label="Input schema" value={schema} />
  const words = rows.map(({ name, isRequired }) => (isRequired ? name : `${name} (optional)`))
  return <p className="note">Input: {words.length === 0 ? 'nothing' : words.join(', ')}</p>
}

/** Converts a tool to its input. Omits the headers, which the API never returns, and keeps if they are absent. */
function inputOf({ headerNames: _, approval, ...tool }: Tool) {
  return { ...tool, approval: approval === null ? null : policyInputOf(approval) }
}

/** Returns the approval policy of the form; null if no approval is required. */
function policyIn(values: FormData, known: Tool['approval']) {
  const quorum = numberIn(values, 'quorum')
  if (quorum === null || quorum < 1) return null
  const hours = numberIn(values, 'expiresInHours')
  return {
    ...(known === null ? {} : policyInputOf(known)),
    quorum,
    ...(hours === null ? {} : { expiresInSeconds: Math.max(1, Math.round(hours * HOUR_SECONDS)) }),
  }
}

interface ToolFormProps {
  tool: Tool | null
  isBusy: boolean
  error: ReturnType<typeof useDo>['error']
  onSave(tool: ToolInput): void
}

function ToolForm({ tool, isBusy, error, onSave }: ToolFormProps) {
  const [failure, setFailure] = useState<ToolFormProps['error']>(null)
  const [execution, setExecution] = useState<ToolExecution>(tool?.execution ?? 'SPACE')
  const [url, setUrl] = useState(tool?.url ?? '')
  const box = useRef<HTMLDivElement>(null)
  /** @throws ParleyError if a field cannot be read */
  const toolIn = (values: FormData): ToolInput => {
    const headers = execution === 'HTTP' ? headersIn(values) : undefined
    const timeoutSeconds = numberIn(values, 'timeoutSeconds')
    return {
      name: textIn(values, 'name') ?? '',
      description: textIn(values, 'description') ?? '',
      execution,
      inputSchema: jsonIn(values, 'inputSchema', 'The input'),
      approval: policyIn(values, tool?.approval ?? null),
      resultSchema:
        execution === 'SPACE' || execution === 'EXTERNAL' ? jsonIn(values, 'resultSchema', 'The answer') : null,
      url: execution === 'HTTP' ? textIn(values, 'url') : null,
      method: execution === 'HTTP' ? textIn(values, 'method') : null,
      timeoutMs: timeoutSeconds === null ? null : Math.round(timeoutSeconds * 1000),
      visible: execution === 'SPACE' ? true : values.get('visible') === 'on',
      alwaysAsk: tool?.alwaysAsk ?? false,
      mayReceiveConfidential: tool?.mayReceiveConfidential ?? false,
      ...(headers === undefined ? {} : { headers }),
    }
  }
  const submit = (values: FormData) => {
    setFailure(null)
    try {
      onSave(toolIn(values))
    } catch (thrown) {
      setFailure(thrown as ToolFormProps['error'])
    }
  }
  return (
    <div ref={box}>
      <Form label="Tool" submit="Save" isBusy={isBusy} error={failure ?? error} onSubmit={submit}>
        <p className="hint">
          A tool lets the agent do something that it cannot do alone: ask a person, call a service, show a table.
        </p>
        <ToolNameField
          defaultValue={tool?.name}
          placeholder="check_stock"
          hint="Letters, digits, _ and -. The model calls the tool by this name."
        />
        <AreaField
          label="Description for the model"
          name="description"
          defaultValue={tool?.description}
          rows={2}
          required
          placeholder="Returns how many pieces of an item are in stock."
          hint="From this text the model decides when to call the tool."
        />
        <SelectField
          label="Execution"
          name="execution"
          value={execution}
          onChange={(event) => setExecution(event.target.value as ToolExecution)}
          options={EXECUTIONS}
          hint={EXECUTION_HINTS[execution]}
        />
        {execution === 'HTTP' && (
          <TextField
            label="URL"
            name="url"
            type="url"
            value={url}
            onChange={(event) => setUrl(event.target.value)}
            required
            placeholder="https://stock.example.com/check"
            hint={
              isPrivateAddress(url)
                ? 'A private address: the server calls it only with PARLEY_ALLOW_PRIVATE_TOOLS=true. “Try it” shows whether the server can call it.'
                : undefined
            }
          />
        )}
        {execution === 'HTTP' && (
          <SelectField
            label="Request"
            name="method"
            defaultValue={tool?.method ?? ''}
            options={METHODS}
            hint="With a method, inputs whose names are in the URL become part of the URL: …/pets/{id}{?limit}."
          />
        )}
        {execution === 'HTTP' && <HeaderFields stored={tool?.headerNames ?? []} />}
        <SchemaFields
          label="Input"
          name="inputSchema"
          required
          initial={tool?.inputSchema ?? FIRST_SCHEMA}
          hint="The model fills in these fields for each call, for example a text named “item”. If there are no fields, it calls the tool without input."
        />
        {execution !== 'INTERNAL' && <TimeoutField execution={execution} timeoutMs={tool?.timeoutMs ?? null} />}
        {(execution === 'SPACE' || execution === 'EXTERNAL') && (
          <AnswerFields execution={execution} schema={tool?.resultSchema ?? null} />
        )}
        <ApprovalFields approval={tool?.approval ?? null} />
        {execution !== 'SPACE' && (
          <CheckField
            label="Show calls in the space"
            name="visible"
            defaultChecked={tool?.visible ?? false}
            hint="Members see each call with its input and result. Otherwise only admins do, on the page of the run."
          />
        )}
        <p className="hint">
          Saving makes a new version of the agent. Runs that start from then on have the tool; runs that have begun do
          not.
        </p>
      </Form>
      {(execution === 'HTTP' || execution === 'INTERNAL') && (
        <ToolTrial tool={() => toolIn(new FormData(box.current?.querySelector('form') ?? undefined))} />
      )}
    </div>
  )
}

function TimeoutField({ execution, timeoutMs }: { execution: ToolExecution; timeoutMs: number | null }) {
  return (
    <TextField
      label="Timeout in seconds"
      name="timeoutSeconds"
      type="number"
      min={0.001}
      step="any"
      defaultValue={timeoutMs === null ? '' : timeoutMs / 1000}
      placeholder={execution === 'HTTP' ? '30' : 'server default'}
      hint="How long the agent waits for the result. After that the call fails, and the agent continues without it."
    />
  )
}

function ApprovalFields({ approval }: { approval: Tool['approval'] }) {
  return (
    <div className="columns">
      <TextField
        label="Approvals that each call needs"
        name="quorum"
        type="number"
        min={0}
        max={50}
        defaultValue={approval?.quorum ?? ''}
        placeholder="none"
        hint="1: a member of the space must approve each call before it is executed. 2: two members. Empty: none."
      />
      <TextField
        label="Hours to approve"
        name="expiresInHours"
        type="number"
        min={0.0001}
        step="any"
        defaultValue={approval === null ? '' : hoursOf(approval.expiresInSeconds)}
        placeholder="server default"
        hint="A call without enough approvals by then is not executed, and the agent continues without it."
      />
    </div>
  )
}

function AnswerFields({ execution, schema }: { execution: ToolExecution; schema: unknown }) {
  const what = execution === 'SPACE' ? 'The form that people fill in' : 'The fields that the service submits'
  return (
    <SchemaFields
      label="Answer"
      name="resultSchema"
      initial={schema}
      hint={`${what}, e.g. the field agreed, yes or no. Without fields, any answer is accepted.`}
    />
  )
}
