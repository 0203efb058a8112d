import { graphql } from '../graphql.ts'

export const AGENT_MIND = graphql(`
  query ConsoleAgentMind($id: ID!) {
    agent(id: $id) {
      id
      mind
      internals {
        memories { id key value updatedAt confidentialTo { id name } }
        goals { id description status updatedAt confidentialTo { id name } }
        inbox(first: 50) { edges { node { id type createdAt urgent payload } } pageInfo { hasNextPage } }
        consciousness {
          cycleCount lastCycleAt tokenEstimate
          cycles(last: 20) {
            edges { node { id endedAt summary messages run { id } confidentialTo { id name } } }
            pageInfo { hasPreviousPage }
          }
        }
      }
    }
  }
`)

graphql(`
  fragment ConsoleFiring on PlanFiring { id firedAt result run { id status } }
`)

export const AGENT_PLANS = graphql(`
  query ConsoleAgentPlans($id: ID!) {
    agent(id: $id) {
      internals {
        plans {
          id
          name
          instruction
          cron
          timeZone
          nextRuns
          scheduledAt
          enabled
          confidentialTo { id name }
          firings(first: 1) { edges { node { ...ConsoleFiring } } }
        }
      }
    }
  }
`)

export const PLAN_FIRINGS = graphql(`
  query ConsolePlanFirings($id: ID!, $after: String) {
    node(id: $id) {
      ... on Plan {
        firings(first: 20, after: $after) {
          edges { node { ...ConsoleFiring } }
          pageInfo { hasNextPage endCursor }
        }
      }
    }
  }
`)

export const SET_MEMORIES = graphql(`
  mutation ConsoleSetMemories($input: SetMemoriesInput!) {
    setMemories(input: $input) { __typename ... on SetMemoriesPayload { agent { id } } ... on Error { message code } }
  }
`)

export const DELETE_MEMORIES = graphql(`
  mutation ConsoleDeleteMemories($input: DeleteMemoriesInput!) {
    deleteMemories(input: $input) { __typename ... on DeleteMemoriesPayload { agent { id } } ... on Error { message code } }
  }
`)

export const SET_GOALS = graphql(`
  mutation ConsoleSetGoals($input: SetGoalsInput!) {
    setGoals(input: $input) { __typename ... on SetGoalsPayload { agent { id } } ... on Error { message code } }
  }
`)

export const DELETE_GOALS = graphql(`
  mutation ConsoleDeleteGoals($input: DeleteGoalsInput!) {
    deleteGoals(input: $input) { __typename ... on DeleteGoalsPayload { agent { id } } ... on Error { message code } }
  }
`)

export const NEXT_RUNS = graphql(`
  query ConsoleNextRuns($schedule: PlanScheduleInput!, $timeZone: String) {
    nextRuns(schedule: $schedule, timeZone: $timeZone)
  }
`)

export const CREATE_PLAN = graphql(`
  mutation ConsoleCreatePlan($input: CreatePlanInput!) {
    createPlan(input: $input) { __typename ... on CreatePlanPayload { plan { id } } ... on Error { message code } }
  }
`)

export const UPDATE_PLAN = graphql(`
  mutation ConsoleUpdatePlan($input: UpdatePlanInput!) {
    updatePlan(input: $input) { __typename ... on UpdatePlanPayload { plan { id } } ... on Error { message code } }
  }
`)

export const RUN_PLAN_NOW = graphql(`
  mutation ConsoleRunPlanNow($id: ID!) {
    runPlanNow(input: { id: $id }) { __typename ... on RunPlanNowPayload { firing { id } } ... on Error { message code } }
  }
`)

export const DELETE_PLAN = graphql(`
  mutation ConsoleDeletePlan($id: ID!) {
    deletePlan(input: { id: $id }) { __typename ... on DeletePlanPayload { deletedPlanId } ... on Error { message code } }
  }
`)

export const REMOVE_INBOX_EVENT = graphql(`
  mutation ConsoleRemoveInboxEvent($id: ID!) {
    removeInboxEvent(input: { id: $id }) {
      __typename
      ... on RemoveInboxEventPayload { removedInboxEventId }
      ... on Error { message code }
    }
  }
`)

export const RESET_CONSCIOUSNESS = graphql(`
  mutation ConsoleResetConsciousness($agentId: ID!) {
    resetConsciousness(input: { agentId: $agentId }) {
      __typename
      ... on ResetConsciousnessPayload { agent { id } }
      ... on Error { message code }
    }
  }
`)
