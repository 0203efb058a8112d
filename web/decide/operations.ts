import { graphql } from '../graphql.ts'

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
