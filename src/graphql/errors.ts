import {
  BadInputError,
  ConflictError,
  type DomainError,
  ForbiddenError,
  LimitExceededError,
  NotFoundError,
  RateLimitedError,
} from '../lib/errors.ts'
import { builder } from './builder.ts'

const ErrorCode = builder.enumType('ErrorCode', {
  values: ['BAD_INPUT', 'FORBIDDEN', 'NOT_FOUND', 'CONFLICT', 'LIMIT_EXCEEDED', 'RATE_LIMITED'] as const,
})

const ExpectedError = builder.interfaceRef<DomainError>('Error').implement({
  description:
    'An expected failure, for the client to handle. All other failures are top-level GraphQL errors with `extensions.code`.',
  fields: (t) => ({
    code: t.expose('code', { type: ErrorCode }),
    message: t.exposeString('message'),
  }),
})

builder.objectType(BadInputError, {
  name: 'BadInputError',
  description: '`field` is the dotted path of the invalid input field, if there is one.',
  interfaces: [ExpectedError],
  fields: (t) => ({ field: t.exposeString('field', { nullable: true }) }),
})

builder.objectType(ForbiddenError, { name: 'ForbiddenError', interfaces: [ExpectedError] })
builder.objectType(NotFoundError, { name: 'NotFoundError', interfaces: [ExpectedError] })
builder.objectType(ConflictError, { name: 'ConflictError', interfaces: [ExpectedError] })
builder.objectType(LimitExceededError, { name: 'LimitExceededError', interfaces: [ExpectedError] })

builder.objectType(RateLimitedError, {
  name: 'RateLimitedError',
  interfaces: [ExpectedError],
  fields: (t) => ({ retryAfterMs: t.exposeInt('retryAfterMs') }),
})
