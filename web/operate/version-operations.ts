import { graphql } from '../graphql.ts'

graphql(`
  fragment ConsoleAgentVersion on AgentVersion {
    id
    number
    createdAt
    author { id name }
    note
    diff
  }
`)

export const AGENT_VERSIONS = graphql(`
  query ConsoleAgentVersions($id: ID!, $after: String) {
    agent(id: $id) {
      id
      internals {
        versions(first: 20, after: $after) {
          edges { node { ...ConsoleAgentVersion } }
          pageInfo { hasNextPage endCursor }
        }
      }
    }
  }
`)

export const AGENT_DRAFT = graphql(`
  query ConsoleAgentDraft($id: ID!) {
    agent(id: $id) { id internals { draft { ...ConsoleAgentVersion } } }
  }
`)

export const PUBLISH_DRAFT = graphql(`
  mutation ConsolePublishDraft($input: PublishAgentDraftInput!) {
    publishAgentDraft(input: $input) {
      __typename
      ... on PublishAgentDraftPayload { version { id number } }
      ... on Error { message code }
    }
  }
`)

export const RESTORE_VERSION = graphql(`
  mutation ConsoleRestoreVersion($input: RestoreAgentVersionInput!) {
    restoreAgentVersion(input: $input) {
      __typename
      ... on RestoreAgentVersionPayload { version { id number } }
      ... on Error { message code }
    }
  }
`)
