import { graphql } from '../graphql.ts'

graphql(`
  fragment ConsoleTool on Tool {
    name
    description
    execution
    inputSchema
    url
    method
    headerNames
    alwaysAsk
    mayReceiveConfidential
    visible
    timeoutMs
    resultSchema
    approval { quorum expiresInSeconds escalateAfterSeconds approvers { id } escalateTo { id } }
  }
`)

graphql(`
  fragment ConsoleMcpServer on McpServer {
    name
    url
    headerNames
    allowedTools
    approval { quorum expiresInSeconds escalateAfterSeconds approvers { id } escalateTo { id } }
    approvalTools
    alwaysAskTools
    mayReceiveConfidential
    confidentialTools
    oauth
    authorized
    tools { name description confirmed }
    problems { toolName reason }
  }
`)

graphql(`
  fragment ConsoleBudget on Budget {
    tokensPerDay
    usdPerDay
    tokensPerRoot
    usdPerRoot
    tokensSpentToday
    usdSpentToday
  }
`)

graphql(`
  fragment ConsoleAgentSettings on Agent {
    id
    name
    kind
    description
    model
    mind
    toolset
    active
    paused
    createdAt
    internals {
      instructions
      maxSteps
      maxToolCalls
      maxConcurrentRuns
      tokenBudget
      fallbackModels
      modelSettings
      tools { ...ConsoleTool }
      mcpServers { ...ConsoleMcpServer }
      remote {
        cardUrl
        headerNames
        mayReceiveConfidential
        confirmed
        approval { quorum expiresInSeconds escalateAfterSeconds approvers { id } escalateTo { id } }
        card { fingerprint name description version url skills }
      }
      phases { fromStep toolChoice activeTools model modelSettings }
      budget { ...ConsoleBudget }
    }
  }
`)

export const AGENTS = graphql(`
  query ConsoleAgents($search: String, $after: String) {
    agents(first: 50, search: $search, after: $after) {
      edges { node { id name kind description model mind active paused createdAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const AGENT = graphql(`
  query ConsoleAgent($id: ID!) {
    agent(id: $id) { ...ConsoleAgentSettings }
  }
`)

export const SPACE_BUDGET = graphql(`
  query ConsoleSpaceBudget($id: ID!) {
    space(id: $id) { budget { ...ConsoleBudget } }
  }
`)

export const SPENT = graphql(`
  query ConsoleSpent($from: DateTime!, $to: DateTime!, $agentId: ID, $spaceId: ID) {
    usage(from: $from, to: $to, by: [], agentId: $agentId, spaceId: $spaceId) { inputTokens outputTokens costUsd }
  }
`)

export const MODELS = graphql(`
  query ConsoleModels {
    modelProviders { name api baseUrl hasKey ready notReadyReason fromEnvironment models }
    defaultModel
  }
`)

export const MODEL_USE = graphql(`
  query ConsoleModelUse {
    agents(first: 100) {
      edges { node { id name model internals { fallbackModels } } }
      pageInfo { hasNextPage }
    }
  }
`)

export const SET_MODEL_PROVIDER = graphql(`
  mutation ConsoleSetModelProvider($input: SetModelProviderInput!) {
    setModelProvider(input: $input) {
      __typename
      ... on SetModelProviderPayload { modelProvider { name } }
      ... on Error { message code }
    }
  }
`)

export const DELETE_MODEL_PROVIDER = graphql(`
  mutation ConsoleDeleteModelProvider($input: DeleteModelProviderInput!) {
    deleteModelProvider(input: $input) {
      __typename
      ... on DeleteModelProviderPayload { deletedName }
      ... on Error { message code }
    }
  }
`)

export const TEST_MODEL_PROVIDER = graphql(`
  mutation ConsoleTestModelProvider($input: TestModelProviderInput!) {
    testModelProvider(input: $input) {
      __typename
      ... on TestModelProviderPayload { ok text }
      ... on Error { message code }
    }
  }
`)

export const CREATE_AGENT = graphql(`
  mutation ConsoleCreateAgent($input: CreateAgentInput!) {
    createAgent(input: $input) {
      __typename
      ... on CreateAgentPayload { agent { id name model } }
      ... on Error { message code }
    }
  }
`)

export const UPDATE_AGENT = graphql(`
  mutation ConsoleUpdateAgent($input: UpdateAgentInput!) {
    updateAgent(input: $input) {
      __typename
      ... on UpdateAgentPayload { agent { id } }
      ... on Error { message code }
    }
  }
`)

export const CREATE_HUMAN = graphql(`
  mutation ConsoleCreateHuman($input: CreateHumanInput!) {
    createHuman(input: $input) {
      __typename
      ... on CreateHumanPayload { human { id name } }
      ... on Error { message code }
    }
  }
`)

export const CREATE_TOKEN = graphql(`
  mutation ConsoleCreateToken($input: CreateAccessTokenInput!) {
    createAccessToken(input: $input) {
      __typename
      ... on CreateAccessTokenPayload { secret accessToken { id } }
      ... on Error { message code }
    }
  }
`)

export const DESCRIBED_SPACES = graphql(`
  query ConsoleDescribedSpaces {
    spaces(first: 100) { edges { node { id name description members { id name kind } } } }
  }
`)

export const SPACES_OF_AGENTS = graphql(`
  query ConsoleSpacesOfAgents {
    spaces(first: 100) { edges { node { id name members { id } } } }
  }
`)

export const DELETE_SPACE = graphql(`
  mutation ConsoleDeleteSpace($id: ID!) {
    deleteSpace(input: { id: $id }) {
      __typename
      ... on DeleteSpacePayload { deletedSpaceId }
      ... on Error { message code }
    }
  }
`)

export const CREATE_WEBHOOK = graphql(`
  mutation ConsoleCreateWebhook($input: CreateWebhookInput!) {
    createWebhook(input: $input) {
      __typename
      ... on CreateWebhookPayload { secret webhook { id url } }
      ... on Error { message code }
    }
  }
`)

export const TRIGGER_AGENT = graphql(`
  mutation ConsoleTriggerAgent($input: TriggerAgentInput!) {
    triggerAgent(input: $input) {
      __typename
      ... on TriggerAgentPayload { run { id } }
      ... on Error { message code }
    }
  }
`)

export const HUMANS = graphql(`
  query ConsoleHumans($search: String, $after: String) {
    humans(first: 50, search: $search, after: $after) {
      edges { node { id name kind role email createdAt erasedAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

graphql(`
  fragment ConsolePerson on Human {
    id
    name
    kind
    email
    role
    createdAt
    erasedAt
    budget { ...ConsoleBudget }
    sessions { ...ConsoleSession }
  }
`)

export const PERSON = graphql(`
  query ConsolePersonById($id: ID!) {
    node(id: $id) { __typename id ...ConsolePerson }
  }
`)

export const UPDATE_PERSON = graphql(`
  mutation ConsoleUpdatePerson($input: UpdateHumanInput!) {
    updateHuman(input: $input) {
      __typename
      ... on UpdateHumanPayload { human { id } }
      ... on Error { message code }
    }
  }
`)

export const ACT_AS = graphql(`
  mutation ConsoleActAs($humanId: ID!) {
    actAs(input: { humanId: $humanId }) {
      __typename
      ... on ActAsPayload { secret expiresAt }
      ... on Error { message code }
    }
  }
`)

export const TOKENS = graphql(`
  query ConsoleTokens($humanId: ID, $after: String) {
    accessTokens(first: 100, humanId: $humanId, after: $after) {
      edges { node { id scope serviceName createdAt expiresAt revokedAt lastUsedAt human { id name } } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const REVOKE_TOKEN = graphql(`
  mutation ConsoleRevokeToken($id: ID!) {
    revokeAccessToken(input: { id: $id }) {
      __typename
      ... on RevokeAccessTokenPayload { accessToken { id } }
      ... on Error { message code }
    }
  }
`)

export const WEBHOOKS = graphql(`
  query ConsoleWebhooks($after: String) {
    webhooks(first: 100, after: $after) {
      edges { node { id url serviceName createdAt lastUsedAt agent { id name } } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const AGENT_WEBHOOKS = graphql(`
  query ConsoleAgentWebhooks($agentId: ID!, $after: String) {
    webhooks(first: 50, after: $after, agentId: $agentId) {
      edges { node { id url serviceName lastUsedAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const DELETE_WEBHOOK = graphql(`
  mutation ConsoleDeleteWebhook($id: ID!) {
    deleteWebhook(input: { id: $id }) {
      __typename
      ... on DeleteWebhookPayload { deletedWebhookId }
      ... on Error { message code }
    }
  }
`)

export const CREATE_INVITATION = graphql(`
  mutation ConsoleCreateInvitation($humanId: ID!) {
    createInvitation(input: { humanId: $humanId }) {
      __typename
      ... on CreateInvitationPayload { url expiresAt }
      ... on Error { message code }
    }
  }
`)

export const INVITATIONS = graphql(`
  query ConsoleInvitations($after: String) {
    invitations(first: 50, after: $after) {
      edges { node { id email human { id name } invitedBy { id name } spaces { id name } createdAt expiresAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const REVOKE_INVITATION = graphql(`
  mutation ConsoleRevokeInvitation($id: ID!) {
    revokeInvitation(input: { id: $id }) {
      __typename
      ... on RevokeInvitationPayload { revokedId }
      ... on Error { message code }
    }
  }
`)

export const DELETE_AGENT = graphql(`
  mutation ConsoleDeleteAgent($id: ID!) {
    deleteAgent(input: { id: $id }) {
      __typename
      ... on DeleteAgentPayload { deletedAgentId }
      ... on Error { message code }
    }
  }
`)
