import type { ConsoleToolFragment } from '../../generated/graphql.ts'

type Policy = NonNullable<ConsoleToolFragment['approval']>

/** Converts an approval policy to its input. */
export function policyInputOf({ quorum, expiresInSeconds, escalateAfterSeconds, approvers, escalateTo }: Policy) {
  return {
    quorum,
    expiresInSeconds,
    approverIds: approvers?.map(({ id }) => id) ?? null,
    ...(escalateAfterSeconds === null
      ? {}
      : { escalateAfterSeconds, escalateToIds: escalateTo?.map(({ id }) => id) ?? [] }),
  }
}
