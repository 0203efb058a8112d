import { graphql } from '../graphql.ts'

export const NOTIFICATION_SETTINGS = graphql(`
  query ConsoleNotificationSettings {
    viewer { pushPublicKey human { id email } notificationSettings { push mail notifyAfterMinutes } }
  }
`)

export const SET_NOTIFICATION_SETTINGS = graphql(`
  mutation ConsoleSetNotificationSettings($input: SetNotificationSettingsInput!) {
    setNotificationSettings(input: $input) {
      __typename
      ... on SetNotificationSettingsPayload { notificationSettings { push mail notifyAfterMinutes } }
      ... on Error { message code }
    }
  }
`)

export const ADD_PUSH_SUBSCRIPTION = graphql(`
  mutation ConsoleAddPushSubscription($input: AddPushSubscriptionInput!) {
    addPushSubscription(input: $input) {
      __typename
      ... on AddPushSubscriptionPayload { id }
      ... on Error { message code }
    }
  }
`)

export const REMOVE_PUSH_SUBSCRIPTION = graphql(`
  mutation ConsoleRemovePushSubscription($endpoint: String!) {
    removePushSubscription(input: { endpoint: $endpoint }) {
      __typename
      ... on RemovePushSubscriptionPayload { removedEndpoint }
      ... on Error { message code }
    }
  }
`)

export const NOTIFY_LEVEL = graphql(`
  query ConsoleNotifyLevel($spaceId: ID!) {
    space(id: $spaceId) { id notifyLevel }
  }
`)

export const SET_NOTIFY_LEVEL = graphql(`
  mutation ConsoleSetNotifyLevel($spaceId: ID!, $level: NotifyLevel!) {
    setNotifyLevel(input: { spaceId: $spaceId, level: $level }) {
      __typename
      ... on SetNotifyLevelPayload { space { id notifyLevel } }
      ... on Error { message code }
    }
  }
`)
