import { graphql } from '../../generated/gql.ts'

export const CREATE_HUMAN = graphql(`
  mutation BenchCreateHuman($name: String!) {
    createHuman(input: { name: $name }) {
      __typename
      ... on CreateHumanPayload { human { id } }
      ... on Error { message }
    }
  }
`)

export const CREATE_TOKEN = graphql(`
  mutation BenchCreateToken($humanId: ID!) {
    createAccessToken(input: { grant: { humanId: $humanId } }) {
      __typename
      ... on CreateAccessTokenPayload { secret }
      ... on Error { message }
    }
  }
`)

export const CREATE_AGENT = graphql(`
  mutation BenchCreateAgent($name: String!, $model: String!, $mind: Mind) {
    createAgent(input: { name: $name, model: $model, mind: $mind, instructions: "Answer." }) {
      __typename
      ... on CreateAgentPayload { agent { id } }
      ... on Error { message }
    }
  }
`)

export const CREATE_SPACE = graphql(`
  mutation BenchCreateSpace($name: String!, $memberIds: [ID!]!) {
    createSpace(input: { name: $name, memberIds: $memberIds }) {
      __typename
      ... on CreateSpacePayload { space { id } }
      ... on Error { message }
    }
  }
`)

export const SEND_MESSAGE = graphql(`
  mutation BenchSendMessage($spaceId: ID!, $text: String!) {
    sendMessage(input: { spaceId: $spaceId, text: $text }) {
      __typename
      ... on SendMessagePayload { sentMessage { id } }
      ... on Error { message }
    }
  }
`)

export const SPACE_MESSAGES = graphql(`
  subscription BenchSpaceMessages($spaceId: ID!) {
    spaceMessages(spaceId: $spaceId) {
      __typename
      ... on MessageTextDelta { messageId delta }
      ... on MessageFinished { message { id status } }
    }
  }
`)

export const AGENT_ACTIVITY = graphql(`
  subscription BenchAgentActivity($spaceId: ID!) {
    agentActivity(spaceId: $spaceId) { active runs { id status } }
  }
`)

export const VIEWER = graphql(`
  query BenchViewer { viewer { id } }
`)
