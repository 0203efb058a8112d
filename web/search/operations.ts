import { graphql } from '../graphql.ts'

export const SEARCH = graphql(`
  query ConsoleSearch(
    $query: String!
    $spaceId: ID
    $senderId: ID
    $hasFile: Boolean
    $since: DateTime
    $until: DateTime
    $order: SearchOrder!
    $first: Int!
    $after: String
  ) {
    search(
      query: $query
      spaceId: $spaceId
      senderId: $senderId
      hasFile: $hasFile
      since: $since
      until: $until
      order: $order
      first: $first
      after: $after
    ) {
      edges {
        node {
          snippet
          matches
          file { id name }
          message { id createdAt sender { id name kind } space { id name } }
        }
      }
      pageInfo { hasNextPage endCursor }
    }
  }
`)

export const SEARCHED_SPACE = graphql(`
  query ConsoleSearchedSpace($id: ID!) {
    space(id: $id) { id name members { id name } }
  }
`)
