import { useRef, useState } from 'react'
import { ParleyError, payloadOf } from '../../client/index.ts'
import type { ConsoleConnectMcpServerMutation, ConsoleMcpServerFragment } from '../../generated/graphql.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { HeaderFields, headersIn } from './header-fields.tsx'
import { policyInputOf } from './policy-input.ts'
import { ToolNameField } from './tool-name-field.tsx'
import { CONFIRM_MCP_TOOLS, CONNECT_MCP_SERVER } from './tool-operations.ts'

type Server = ConsoleMcpServerFragment

interface McpServersProps {
  agentId: string
  servers: readonly Server[]
  /** Saves the servers. Calls `onSaved` when they are saved. */
  onSave(servers: object[], onSaved?: () => void): void
}

/** The agent's Model Context Protocol servers. */
export function McpServers({ agentId, servers, onSave }: McpServersProps) {
  const { connection } = useSession()
  const [isMaking, setMaking] = useState(false)
  /** The name of the edited server. Its object changes when connecting refetches the servers. */
  const [editedName, setEditedName] = useState<string | null>(null)
  const edited = servers.find(({ name }) => name === editedName) ?? null
  const [trial, setTrial] = useState<{ name: string | null; connected: Connected | null } | null>(null)
  const connect = useDo(async ({ name, url, oauth }: Saved) => {
    setTrial({ name, connected: null })
    const made = await connection.ask(CONNECT_MCP_SERVER, {
      input: { server: { name: name ?? '', url, oauth }, agentId },
    })
    setTrial({ name, connected: payloadOf(made.connectMcpServer, 'ConnectMcpServerPayload') })
  })
  const othersThan = (name: string | null) => servers.filter((one) => one.name !== name).map(inputOf)
  const close = () => {
    setMaking(false)
    setEditedName(null)
  }
  return (
    <section className="block">
      <div className="block-head">
        <h2>MCP servers</h2>
        <Button icon="plus" onClick={() => setMaking(true)}>
          New server
        </Button>
      </div>
      {servers.length === 0 && (
        <p className="hint">
          None yet. An MCP server (Model Context Protocol) offers ready-made tools, for example those of GitHub or of
          your calendar. With <em>New server</em> you enter its URL, see its tools, and choose which of them the agent
          gets.
        </p>
      )}
      <ul className="rows">
        {servers.map((server) => (
          <ServerRow
            key={server.name}
            server={server}
            trial={trial?.name === server.name ? { connected: trial.connected, error: connect.error } : null}
            onEdit={() => {
              setTrial(null)
              setEditedName(server.name)
            }}
            onRemove={() => onSave(othersThan(server.name))}
          />
        ))}
      </ul>
      <Dialog
        title={isMaking ? 'New MCP server' : 'Edit MCP server'}
        open={isMaking || edited !== null}
        onOpenChange={(open) => !open && close()}
      >
        <ServerForm
          agentId={agentId}
          server={edited}
          onSave={(server) => {
            close()
            // With OAuth, an admin has to authorize Parley first.
            onSave([...othersThan(editedName), server], () => server.oauth === 'NONE' && connect.start(server))
          }}
        />
      </Dialog>
    </section>
  )
}

/** The attempt to connect to a server after saving it. */
interface Trial {
  connected: Connected | null
  error: ParleyError | null
}

interface ServerRowProps {
  server: Server
  trial: Trial | null
  onEdit(): void
  onRemove(): void
}

function ServerRow({ server, trial, onEdit, onRemove }: ServerRowProps) {
  const { name, url, allowedTools, tools, problems } = server
  const [isRemoving, setRemoving] = useState(false)
  const waiting = tools.filter(({ confirmed }) => !confirmed).length
  const failure = trial?.error?.message ?? trial?.connected?.error ?? null
  return (
    <li className="tool-row">
      <div className="grow">
        <b>{name}</b> <span className="note">{url}</span>
        <p className="note">
          {allowedTools === null ? 'All tools' : allowedTools.length === 0 ? 'No tools' : allowedTools.join(', ')}
          {waiting > 0 && ` · ${waiting} new or changed: connect to review ${waiting === 1 ? 'it' : 'them'}`}
        </p>
        <p role="status" className={failure === null ? 'note' : 'note bad'}>
          {failure !== null
            ? `Could not connect: ${failure}`
            : trial !== null && (trial.connected === null ? 'Connecting…' : wordsOfTools(trial.connected.tools ?? []))}
        </p>
        {problems.map(({ toolName, reason }) => (
          <p key={toolName} className="note">
            {toolName === null ? reason : `${toolName}: ${reason}`}
          </p>
        ))}
      </div>
      <Button onClick={onEdit}>Edit</Button>
      <IconButton label={`Remove ${name}`} icon="cross" onClick={() => setRemoving(true)} />
      <Confirm
        title={`Remove ${name}?`}
        submit="Remove"
        open={isRemoving}
        onOpenChange={setRemoving}
        onConfirm={() => {
          setRemoving(false)
          onRemove()
        }}
      >
        <p>The agent loses the tools of this server, and its stored headers are deleted.</p>
      </Confirm>
    </li>
  )
}

/** Converts a server to its input. Headers are omitted, so that the stored ones stay. */
function inputOf({ approval, headerNames: _, tools: __, problems: ___, authorized: ____, ...server }: Server) {
  return { ...server, approval: approval === null ? null : policyInputOf(approval) }
}

type Connected = Extract<ConsoleConnectMcpServerMutation['connectMcpServer'], { __typename: 'ConnectMcpServerPayload' }>
type Listed = NonNullable<Connected['tools']>

const wordsOfTools = ({ length }: Listed) => `Connected: ${length} ${length === 1 ? 'tool' : 'tools'}.`

const AUTHORIZATIONS = [
  ['NONE', 'With headers, or none'],
  ['SERVER', 'OAuth: one token for the server'],
  ['PERSON', 'OAuth: one token for each person'],
] as const

interface ServerFormProps {
  agentId: string
  server: Server | null
  onSave(server: Saved): void
}

function ServerForm({ agentId, server, onSave }: ServerFormProps) {
  const { connection } = useSession()
  const box = useRef<HTMLDivElement>(null)
  const [connected, setConnected] = useState<Connected | null>(null)
  const connect = useDo(async () => {
    setConnected(null)
    const form = box.current?.querySelector('form')
    if (!form?.reportValidity()) return
    const values = new FormData(form)
    const input = { server: { ...addressIn(values), name: textIn(values, 'name') ?? '' }, agentId }
    const made = await connection.ask(CONNECT_MCP_SERVER, { input })
    setConnected(payloadOf(made.connectMcpServer, 'ConnectMcpServerPayload'))
  })
  const confirm = useDo(async () => {
    const made = await connection.ask(CONFIRM_MCP_TOOLS, { input: { agentId, serverName: server?.name ?? '' } })
    payloadOf(made.confirmMcpTools, 'ConfirmMcpToolsPayload')
    await connect.run(undefined)
  })
  const tools = connected?.tools ?? server?.tools ?? []
  const changed = tools.filter(({ confirmed }) => !confirmed)
  return (
    <div ref={box}>
      <Form
        label="MCP server"
        submit="Save"
        isBusy={false}
        error={connect.error ?? confirm.error ?? refusalOf(connected)}
        onSubmit={(values) =>
          onSave({ ...(server === null ? {} : inputOf(server)), ...serverIn(values, server, tools) })
        }
      >
        <p className="hint">
          Enter the URL and, if the server requires one, a key. Then click <em>Connect</em> to see its tools, choose
          which of them the agent gets, and save.
        </p>
        <ToolNameField
          defaultValue={server?.name}
          readOnly={server !== null}
          placeholder="github"
          hint={
            server === null
              ? 'A short name of your choice. The names of the tools begin with it, as in github__create_issue. You cannot change it later.'
              : 'The names of the tools begin with this name. You cannot change it.'
          }
        />
        <TextField
          label="URL"
          name="url"
          type="url"
          defaultValue={server?.url}
          required
          placeholder="https://mcp.example.com/mcp"
          hint="The address that the documentation of the server gives for HTTP. Servers that run as a local program (stdio) have no address and cannot be used."
        />
        <HeaderFields stored={server?.headerNames ?? []} />
        <SelectField
          label="Authorization"
          name="oauth"
          defaultValue={server?.oauth ?? 'NONE'}
          options={AUTHORIZATIONS}
          hint="For OAuth, save the server first. Then open it again, click Connect, and follow the link to authorize Parley."
        />
        <div className="decide">
          <Button icon="link" isBusy={connect.isBusy} onClick={() => connect.start(undefined)}>
            Connect
          </Button>
          <span className="hint">Lists the tools of the server. Nothing is saved yet.</span>
        </div>
        {connected?.authorizationUrl != null && (
          <p role="status">
            The server requires authorization.{' '}
            <a href={connected.authorizationUrl} target="_blank" rel="noreferrer">
              Authorize at {new URL(connected.authorizationUrl).host}
            </a>
            , then connect again.
          </p>
        )}
        {connected?.tools != null && (
          <p role="status" className="hint">
            {wordsOfTools(connected.tools)}
          </p>
        )}
        {changed.length > 0 && server !== null && connected !== null && (
          <div className="plain-row">
            <span className="grow">
              New or changed since an admin confirmed them: {changed.map(({ name }) => name).join(', ')}. The agent does
              not get them until you confirm.
            </span>
            <Button icon="check" isBusy={confirm.isBusy} onClick={() => confirm.start(undefined)}>
              Confirm these tools
            </Button>
          </div>
        )}
        {tools.length > 0 && <ToolSwitches tools={tools} server={server} />}
        <p className="hint">
          {tools.length === 0
            ? 'If you save without connecting, the agent gets all tools that the server lists at its next run.'
            : 'After saving, the agent has the chosen tools from its next run on. Tools that the server adds or changes later wait until an admin confirms them.'}
        </p>
      </Form>
    </div>
  )
}

function ToolSwitches({ tools, server }: { tools: Listed; server: Server | null }) {
  return (
    <fieldset>
      <legend>Tools</legend>
      <p className="hint">The agent gets the checked tools. “Needs approval”: a person must approve each call.</p>
      <ul className="rows">
        {tools.map(({ name, description, confirmed }) => (
          <li key={name} className="tool-row">
            <div className="grow">
              <label className="choice">
                <input
                  type="checkbox"
                  name="allowed"
                  value={name}
                  defaultChecked={server?.allowedTools?.includes(name) ?? true}
                />
                <span>
                  <code>{name}</code> {!confirmed && <span className="kind">new or changed</span>}
                </span>
              </label>
              {description !== null && <p className="note">{description}</p>}
            </div>
            <label className="choice">
              <input
                type="checkbox"
                name="asks"
                value={name}
                aria-label={`${name} needs approval`}
                defaultChecked={asksFor(server, name)}
              />
              <span>needs approval</span>
            </label>
          </li>
        ))}
      </ul>
    </fieldset>
  )
}

/** Returns why Parley could not connect to the server, from the result of the attempt. */
const refusalOf = (connected: Connected | null) =>
  connected?.error == null ? null : new ParleyError(`${connected.error} ${remedyOf(connected.error)}`.trim(), 'NETWORK')

/** Returns advice about a failed connection. The error of a refused private address already contains advice. */
const remedyOf = (error: string) =>
  error.includes('PARLEY_ALLOW_PRIVATE_TOOLS') ? '' : 'Check the URL and the headers, then connect again.'

const asksFor = (server: Server | null, tool: string) =>
  server !== null && server.approval !== null && (server.approvalTools?.includes(tool) ?? true)

function addressIn(values: FormData) {
  const headers = headersIn(values)
  const [oauth] = AUTHORIZATIONS.find(([value]) => value === values.get('oauth')) ?? AUTHORIZATIONS[0]
  return { url: textIn(values, 'url') ?? '', oauth, ...(headers === undefined ? {} : { headers }) }
}

type Saved = ReturnType<typeof serverIn>

/** Returns the server of the form. Until its tools are known, the stored choices of tools are kept. */
function serverIn(values: FormData, server: Server | null, tools: Listed) {
  const address = { name: textIn(values, 'name'), ...addressIn(values) }
  if (tools.length === 0) return address
  const allowed = values.getAll('allowed').map(String)
  const asks = values.getAll('asks').map(String)
  const policy = server?.approval == null ? { quorum: 1 } : policyInputOf(server.approval)
  // Approval for all tools also applies to tools that are added later.
  const asksForAll = server?.approval != null && server.approvalTools === null && asks.length === tools.length
  return {
    ...address,
    allowedTools: allowed.length === tools.length && server?.allowedTools == null ? null : allowed,
    approval: asks.length === 0 ? null : policy,
    approvalTools: asks.length === 0 || asksForAll ? null : asks,
  }
}
