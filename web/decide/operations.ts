import { graphql } from '../graphql.ts'

graphql(`
  fragment ConsoleGrant on StandingGrant {
    id
    agent { id name }
    toolName
    space { id name }
    inputSchema
    maxCalls
    usedCalls
    amountProperty
    maxAmount
    usedAmount
    expiresAt
    state
    quorum
    mayDecide
    proposedBy { id name }
    revokedBy { id name }
    decisions { human { id name } approve reason at counts }
  }
`)

export const GRANTS = graphql(`
  query ConsoleGrants($agentId: ID, $spaceId: ID) {
    standingGrants(agentId: $agentId, spaceId: $spaceId) { ...ConsoleGrant }
  }
`)

export const GRANTS_TO_DECIDE = graphql(`
  query ConsoleGrantsToDecide {
    standingGrants { id mayDecide }
  }
`)

export const GRANT_OF_CALL = graphql(`
  query ConsoleGrantOfCall($id: ID!) {
    node(id: $id) { __typename ... on ToolCall { grant { ...ConsoleGrant } } }
  }
`)

/** The calls of an agent's latest runs that the viewer may see. */
export const PAST_CALLS = graphql(`
  query ConsolePastCalls($agentId: ID!) {
    runs(first: 50, filter: { agentId: $agentId }) {
      edges { node { toolCalls { id toolName input status createdAt message { space { id } } } } }
    }
  }
`)

export const PLACE_OF_CALL = graphql(`
  query ConsolePlaceOfCall($id: ID!) {
    node(id: $id) { __typename ... on ToolCall { message { space { id name } } } }
  }
`)

export const PROPOSE_GRANT = graphql(`
  mutation ConsoleProposeGrant($input: ProposeStandingGrantInput!) {
    proposeStandingGrant(input: $input) {
      __typename
      ... on ProposeStandingGrantPayload { standingGrant { id state } }
      ... on Error { message code }
    }
  }
`)

export const DECIDE_GRANT = graphql(`
  mutation ConsoleDecideGrant($input: DecideStandingGrantInput!) {
    decideStandingGrant(input: $input) {
      __typename
      ... on DecideStandingGrantPayload { standingGrant { id state } }
      ... on Error { message code }
    }
  }
`)

export const REVOKE_GRANT = graphql(`
  mutation ConsoleRevokeGrant($id: ID!) {
    revokeStandingGrant(input: { id: $id }) {
      __typename
      ... on RevokeStandingGrantPayload { standingGrant { id state } }
      ... on Error { message code }
    }
  }
`)

export const DECIDE_TOOL_CALLS = graphql(`
  mutation ConsoleDecideToolCalls($input: DecideToolCallsInput!) {
    decideToolCalls(input: $input) {
      __typename
      ... on DecideToolCallsPayload { results { __typename ... on Error { message code } } }
      ... on Error { message code }
    }
  }
`)

export const SUBMIT_TOOL_RESULT = graphql(`
  mutation ConsoleSubmitToolResult($toolCallId: ID!, $result: JSON!) {
    submitToolResult(input: { toolCallId: $toolCallId, result: $result }) {
      __typename
      ... on SubmitToolResultPayload { toolCall { id status } }
      ... on Error { message code }
    }
  }
`)

export const DECIDE_TOOL_CALL = graphql(`
  mutation ConsoleDecideToolCall($input: DecideToolCallInput!) {
    decideToolCall(input: $input) {
      __typename
      ... on DecideToolCallPayload { toolCall { id status } }
      ... on Error { message code }
    }
  }
`)

export const CLAIM_TOOL_CALL = graphql(`
  mutation ConsoleClaimToolCall($input: ClaimToolCallInput!) {
    claimToolCall(input: $input) {
      __typename
      ... on ClaimToolCallPayload { toolCall { id } }
      ... on Error { message code }
    }
  }
`)
