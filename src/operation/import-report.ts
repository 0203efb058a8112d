import { oneLine } from '../lib/json.ts'
import type { Imported, NewAgent } from './import.ts'

/**
 * Returns a report for the operator about an import or dry run. The report begins with the agents and the addresses
 * that their tools use. Names come from the file, so each name is quoted and written on one line.
 */
export function importReport({ spaceId, agents, here, counts, leftOut }: Imported, isDryRun: boolean): string[] {
  const quoted = (text: string) => JSON.stringify(oneLine(text))
  const [creates, names] = isDryRun ? ['would create', 'would use'] : ['created', 'used']
  const confidential = (mayReceive: boolean) => (mayReceive ? ', may receive confidential content' : '')
  const agentLines = ({ name, id, tools, mcpServers, remote }: NewAgent) => {
    const local = tools.filter(({ url }) => url === null).length
    return [
      `  ${quoted(name)} (${id})${local === 0 ? '' : `, with ${local} tools without a URL`}`,
      ...(remote === null
        ? []
        : [`    represents the agent at ${quoted(remote.cardUrl)}${confidential(remote.mayReceiveConfidential)}`]),
      ...tools
        .filter(({ url }) => url !== null)
        .map(
          (tool) =>
            `    tool ${quoted(tool.name)} calls ${quoted(tool.url ?? '')}${confidential(tool.mayReceiveConfidential)}`,
        ),
      ...mcpServers.map(
        (server) =>
          `    MCP server ${quoted(server.name)} at ${quoted(server.url)}${confidential(server.mayReceiveConfidential)}`,
      ),
    ]
  }
  return [
    `${creates} ${agents.length} agents${agents.length === 0 ? '' : ':'}`,
    ...agents.flatMap(agentLines),
    ...(here.length === 0 ? [] : [`${names} ${here.length} existing people and agents:`]),
    ...here.map(({ id, name }) => `  ${quoted(name)} (${id})`),
    ...(leftOut.length === 0 ? [] : ['omitted:']),
    ...leftOut.map(
      ({ table, reason, count, firstLine }) => `  ${count} × ${table}: ${reason} (first on line ${firstLine})`,
    ),
    `${isDryRun ? 'would import' : 'imported'} ${spaceId}: ${JSON.stringify(counts)}`,
    ...(isDryRun ? ['nothing was written: to import, run the command again without --dry-run'] : []),
  ]
}
