import { useState } from 'react'
import type { ConsoleAgentSettingsFragment } from '../../generated/graphql.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, TextField, textIn } from '../ui/field.tsx'

type Agent = ConsoleAgentSettingsFragment

/** The agent's Model Context Protocol servers. */
export function McpServers({ agent, onSave }: { agent: Agent; onSave(servers: object[]): void }) {
  const [isMaking, setMaking] = useState(false)
  const servers = agent.internals?.mcpServers ?? []
  const known = servers.map(({ name, url, allowedTools, approval, approvalTools }) => ({
    name,
    url,
    ...(allowedTools === null ? {} : { allowedTools }),
    ...(approval === null ? {} : { approval, ...(approvalTools === null ? {} : { approvalTools }) }),
  }))
  return (
    <section className="block">
      <div className="block-head">
        <h2>MCP servers</h2>
        <Button icon="plus" onClick={() => setMaking(true)}>
          New server
        </Button>
      </div>
      {servers.length === 0 && (
        <p className="hint">None. An MCP server (Model Context Protocol) adds its tools to the agent.</p>
      )}
      <ul className="rows">
        {servers.map(({ name, url, allowedTools }) => (
          <li key={name} className="plain-row">
            <b>{name}</b>
            <span className="note grow">{url}</span>
            <span className="note">{allowedTools === null ? 'all tools' : allowedTools.join(', ')}</span>
            <IconButton
              label={`Remove ${name}`}
              icon="cross"
              onClick={() => onSave(known.filter((one) => one.name !== name))}
            />
          </li>
        ))}
      </ul>
      <Dialog title="New MCP server" open={isMaking} onOpenChange={setMaking}>
        <Form
          label="New MCP server"
          submit="Add"
          isBusy={false}
          error={null}
          onSubmit={(values) => {
            const allowed = (textIn(values, 'allowedTools') ?? '').split(/[\s,]+/).filter(Boolean)
            const server = {
              name: textIn(values, 'name'),
              url: textIn(values, 'url'),
              ...(allowed.length === 0 ? {} : { allowedTools: allowed }),
            }
            setMaking(false)
            onSave([...known, server])
          }}
        >
          <TextField label="Name" name="name" required />
          <TextField label="URL" name="url" type="url" required />
          <TextField label="Allowed tools" name="allowedTools" placeholder="all" hint="Names, separated by commas" />
        </Form>
      </Dialog>
    </section>
  )
}
