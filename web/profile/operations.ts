import { graphql } from '../graphql.ts'

graphql(`
  fragment ConsoleSession on Session {
    id
    device
    createdAt
    lastUsedAt
    current
    actingAdmin { id name }
  }
`)

export const PROFILE = graphql(`
  query ConsoleProfile {
    viewer {
      human { id name email timeZone sharePresence }
      sessions { ...ConsoleSession }
    }
  }
`)

export const UPDATE_PROFILE = graphql(`
  mutation ConsoleUpdateProfile($input: UpdateHumanInput!) {
    updateHuman(input: $input) {
      __typename
      ... on UpdateHumanPayload { human { id } }
      ... on Error { message code }
    }
  }
`)

export const END_SESSION = graphql(`
  mutation ConsoleEndSession($id: ID) {
    endSession(input: { id: $id }) {
      __typename
      ... on EndSessionPayload { endedSessionIds }
      ... on Error { message code }
    }
  }
`)
