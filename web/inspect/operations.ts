import { graphql } from '../graphql.ts'

graphql(`
  fragment ConsoleRun on Run {
    id
    status
    stopReason
    error
    triggerSummary
    triggerType
    queuedAt
    startedAt
    finishedAt
    stepCount
    rootId
    depth
    agent { id name kind }
    parent { id }
    triggerSpace { id name }
    triggerMessage { id }
    usage { inputTokens outputTokens totalTokens cachedInputTokens estimated costUsd }
  }
`)

export const RUN = graphql(`
  query ConsoleRun($id: ID!) {
    run(id: $id) {
      ...ConsoleRun
      summary
      agentVersion
      retryOf { id }
      retriedBy { id }
      stoppedBy { name }
      rootUsage { inputTokens outputTokens totalTokens cachedInputTokens estimated costUsd }
      parent { id agent { id name } }
      triggerSpace { routing mentionNarrows }
      triggerMessage {
        id
        mentions { id }
        createdAt
        deletedAt
        text
        sender { id name kind }
        outcomes { agent { id } kind reason run { id } }
      }
    }
  }
`)

/** The messages after a trigger, which include those of the run. */
export const RUN_ANSWERS = graphql(`
  query ConsoleRunAnswers($spaceId: ID!, $after: String!) {
    space(id: $spaceId) {
      messages(first: 50, after: $after) { edges { node { id text run { id } } } }
    }
  }
`)

/** When each step of a run called its model, for admins. */
export const RUN_TIMES = graphql(`
  query ConsoleRunTimes($id: ID!) {
    run(id: $id) {
      internals { steps(first: 100) { edges { node { index model startedAt durationMs msToFirstChunk } } } }
    }
  }
`)

export const RUNS = graphql(`
  query ConsoleRuns($filter: RunFilter, $after: String) {
    runs(first: 50, after: $after, filter: $filter) {
      edges { node { ...ConsoleRun toolCalls { toolName status waitsFor } } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const RUN_STEPS = graphql(`
  query ConsoleRunSteps($id: ID!, $after: String, $first: Int!) {
    run(id: $id) {
      internals {
        steps(first: $first, after: $after) {
          edges {
            node {
              index
              model
              durationMs
              msToFirstChunk
              finishReason
              activeTools
              instructions
              messages
              response
              failedModels { model error }
              usage { inputTokens outputTokens totalTokens cachedInputTokens estimated costUsd }
            }
          }
          pageInfo { hasNextPage endCursor }
        }
      }
    }
  }
`)

export const RUN_CONFIDENCE = graphql(`
  query ConsoleRunConfidence($id: ID!) {
    run(id: $id) {
      internals {
        askers { id name }
        confidentialTo { id name }
        steps(first: 50) {
          edges {
            node {
              index
              confidentialTo { id name }
              withheld { memories goals plans cycles space { id name } }
            }
          }
          pageInfo { hasNextPage }
        }
      }
    }
  }
`)

export const AUDIT_LOG = graphql(`
  query ConsoleAuditLog($action: String, $actorId: ID, $targetId: ID, $from: DateTime, $to: DateTime, $after: String) {
    auditLog(first: 50, after: $after, action: $action, actorId: $actorId, targetId: $targetId, from: $from, to: $to) {
      edges { node { id at action refused targetId detail serviceName actor { id name kind } } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const NAMES = graphql(`
  query ConsoleNames($ids: [ID!]!) {
    nodes(ids: $ids) {
      id
      ... on Entity { name }
      ... on Space { name }
      ... on Plan { name agent { id } }
      ... on Goal { description }
      ... on Run { agent { name } }
      ... on Message { space { id name } sender { name } }
      ... on ToolCall { toolName run { id } }
      ... on Webhook { service: serviceName agent { id } }
      ... on AccessToken { scope serviceName human { name } }
    }
  }
`)

export const USAGE = graphql(`
  query ConsoleUsage($from: DateTime!, $to: DateTime!, $by: [UsageDimension!]!) {
    usage(from: $from, to: $to, by: $by) {
      day
      model
      agent { id name }
      space { id name }
      human { id name }
      runs
      skippedCycles
      inputTokens
      cachedInputTokens
      outputTokens
      costUsd
    }
  }
`)

export const FAILED_JOBS = graphql(`
  query ConsoleFailedJobs($after: String) {
    failedJobs(first: 50, after: $after) {
      edges { node { id name subjectId attempts error failedAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const RETRY_JOB = graphql(`
  mutation ConsoleRetryJob($id: ID!) {
    retryJob(input: { id: $id }) {
      __typename
      ... on RetryJobPayload { retriedJobId }
      ... on Error { message code }
    }
  }
`)

export const DELETE_JOB = graphql(`
  mutation ConsoleDeleteJob($id: ID!) {
    deleteJob(input: { id: $id }) {
      __typename
      ... on DeleteJobPayload { deletedJobId }
      ... on Error { message code }
    }
  }
`)

export const CURRENT_VERSION = graphql(`
  query ConsoleCurrentVersion($id: ID!) {
    agent(id: $id) { id internals { versions(first: 1) { edges { node { id number } } } } }
  }
`)

export const WHY = graphql(`
  query ConsoleWhy($id: ID!) {
    why(id: $id) { steps { kind id text at causes } }
  }
`)

export const WHY_OBJECTS = graphql(`
  query ConsoleWhyObjects($ids: [ID!]!) {
    nodes(ids: $ids) {
      __typename
      id
      ... on Message { text space { id } }
      ... on ToolCall { toolName status agent { name } run { id } }
    }
  }
`)

export const MESSAGE_OUTCOMES = graphql(`
  query ConsoleMessageOutcomes($id: ID!) {
    node(id: $id) {
      __typename
      id
      ... on Message {
        sender { id kind }
        mentions { id }
        space { id name routing mentionNarrows }
        outcomes { kind reason error agent { id name } run { id status } }
      }
    }
  }
`)

export const RERUN_STEP = graphql(`
  mutation ConsoleRerunStep($input: RerunStepInput!) {
    rerunStep(input: $input) {
      __typename
      ... on RerunStepPayload { run { id } }
      ... on Error { message code }
    }
  }
`)
