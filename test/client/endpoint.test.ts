import { afterEach, describe, expect, test, vi } from 'vitest'
import { createConnection } from '../../client/connection.ts'
import { endpointOf } from '../../client/endpoint.ts'

describe('the url of a connection', () => {
  afterEach(() => vi.unstubAllGlobals())
  const inPage = (href: string) => vi.stubGlobal('location', new URL(href))

  test.each([
    ['http://localhost:4000', 'http://localhost:4000/graphql'],
    ['http://localhost:4000/', 'http://localhost:4000/graphql'],
    ['http://localhost:4000/graphql', 'http://localhost:4000/graphql'],
    ['http://localhost:4000/graphql/', 'http://localhost:4000/graphql'],
    [' HTTPS://Parley.Example:443// ', 'https://parley.example/graphql'],
    ['ws://localhost:4000/graphql', 'http://localhost:4000/graphql'],
    ['wss://parley.example', 'https://parley.example/graphql'],
    ['https://example.com/parley', 'https://example.com/parley/graphql'],
    ['https://example.com/a/parley/graphql/', 'https://example.com/a/parley/graphql'],
    ['http://[::1]:4000', 'http://[::1]:4000/graphql'],
  ])('%s is %s', (url, endpoint) => {
    expect(endpointOf(url)).toBe(endpoint)
  })

  test.each([
    ['localhost:4000', 'Put http:// or https:// before it.'],
    ['127.0.0.1:4000/graphql', 'Put http:// or https:// before it.'],
    ['parley.example', 'Put http:// or https:// before it.'],
    ['/parley', 'Put http:// or https:// before it.'],
    ['file:///parley', 'The address must begin with https:// or http://.'],
    ['http://', 'The address is not valid.'],
    ['http://ada:secret@parley.example', 'The address must not contain a user'],
    ['http://parley.example/graphql?token=1', 'The address must not contain a user, a password, a query'],
    ['', 'The url is missing.'],
    [undefined, 'The url is missing.'],
  ])('%s is refused immediately, with a readable error', (url, words) => {
    expect(() => createConnection({ ...(url === undefined ? {} : { url }), token: 'x' })).toThrow(words)
  })

  test('is by default the origin of the page in a browser, and may be relative', () => {
    inPage('https://example.com/parley/console?x=1#y')
    expect(endpointOf(undefined)).toBe('https://example.com/graphql')
    expect(endpointOf('/parley')).toBe('https://example.com/parley/graphql')
    expect(endpointOf('./graphql')).toBe('https://example.com/parley/graphql')
    expect(endpointOf('//api.example')).toBe('https://api.example/graphql')
    expect(() => endpointOf('localhost:4000')).toThrow('Put http:// or https://')
  })
})
