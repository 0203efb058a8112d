import { graphql } from '../graphql.ts'

export const CONNECT_MCP_SERVER = graphql(`
  mutation ConsoleConnectMcpServer($input: ConnectMcpServerInput!) {
    connectMcpServer(input: $input) {
      __typename
      ... on ConnectMcpServerPayload { tools { name description confirmed } authorizationUrl error }
      ... on Error { message code }
    }
  }
`)

export const CONFIRM_MCP_TOOLS = graphql(`
  mutation ConsoleConfirmMcpTools($input: ConfirmMcpToolsInput!) {
    confirmMcpTools(input: $input) {
      __typename
      ... on ConfirmMcpToolsPayload { agent { id } }
      ... on Error { message code }
    }
  }
`)

export const CONFIRM_AGENT_CARD = graphql(`
  mutation ConsoleConfirmAgentCard($input: ConfirmAgentCardInput!) {
    confirmAgentCard(input: $input) {
      __typename
      ... on ConfirmAgentCardPayload { agent { id } }
      ... on Error { message code }
    }
  }
`)

export const READ_OPEN_API = graphql(`
  mutation ConsoleReadOpenApi($input: ReadOpenApiInput!) {
    readOpenApi(input: $input) {
      __typename
      ... on ReadOpenApiPayload { tools { operation name description url method inputSchema problem } }
      ... on Error { message code }
    }
  }
`)

export const TRY_TOOL = graphql(`
  mutation ConsoleTryTool($input: TryToolInput!) {
    tryTool(input: $input) {
      __typename
      ... on TryToolPayload { ok output error durationMs }
      ... on Error { message code }
    }
  }
`)
