import { MESSAGE_ONCE_EXTENSION } from '../../lib/a2a-extensions.ts'

/** The A2A extension for the cursor in a task. The task is complete up to the position of the cursor. */
export const CURSOR_EXTENSION = 'urn:parley:a2a:cursor'

export const A2A_PATH = '/a2a'

export interface Described {
  id: string
  name: string
  description: string | null
}

/** The server as an A2A agent. A message contains the id of the space whose agents answer it. */
export const SERVER: Described = {
  id: 'spaces',
  name: 'Parley',
  description: 'Spaces that people and agents share. Pass the id of a space as contextId.',
}

/** Returns the agent card of an agent, a space or the server. `url`: the URL of its JSON-RPC interface. */
export function cardOf({ id, name, description }: Described, url: string): object {
  const about = description || `${name}, an agent on a Parley server.`
  return {
    name,
    description: about,
    version: '1',
    supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: {
      streaming: true,
      pushNotifications: true,
      extendedAgentCard: false,
      extensions: [
        {
          uri: CURSOR_EXTENSION,
          description:
            'The metadata of a task contains the stream position up to which the task is complete. If `isCut` is true, artifacts are missing: read the messages of the context.',
          required: false,
        },
        {
          uri: MESSAGE_ONCE_EXTENSION,
          description: 'A message that is sent again with the same messageId takes effect only once.',
          required: false,
        },
      ],
    },
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    defaultInputModes: ['text/plain', 'application/json'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id, name, description: about, tags: ['chat'] }],
  }
}
