import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../src/lib/json.ts'
import { type HttpMethod, templateFault, toolRequest, withoutQueryValues } from '../../src/rules/http-request.ts'

const SITE = 'https://api.example.com'

describe('the request of an HTTP tool', () => {
  test.each<[HttpMethod | null, string, JsonObject, string, string | null]>([
    [null, '/hook/{id}', { id: 1 }, 'POST /hook/{id}', '{"id":1}'],
    ['POST', '/pets/{id}', { id: 1, name: 'Rex' }, 'POST /pets/1', '{"name":"Rex"}'],
    ['GET', '/pets/{id}', { id: 'a b/c', q: 'ö' }, 'GET /pets/a%20b%2Fc?q=%C3%B6', null],
    ['GET', '/pets{?limit,tags*}', { limit: 2, tags: ['a', 'b'] }, 'GET /pets?limit=2&tags=a&tags=b', null],
    ['GET', '/pets{?tags}', { tags: ['a', 'b'] }, 'GET /pets?tags=a,b', null],
    ['GET', '/pets?v=1{&limit}', { limit: null }, 'GET /pets?v=1', null],
    ['DELETE', '/pets/{id}?v=1', { id: 7, force: true }, 'DELETE /pets/7?v=1&force=true', null],
    ['PATCH', '/pets/{id}{?dry}', { id: 7, dry: false, age: 3 }, 'PATCH /pets/7?dry=false', '{"age":3}'],
    ['GET', '/find', { 'filter[name]': '&#?' }, 'GET /find?filter%5Bname%5D=%26%23%3F', null],
  ])('%s %s with %j', (method, path, input, request, body) => {
    const [verb, rest] = request.split(' ')
    expect(toolRequest({ method, url: `${SITE}${path}` }, input)).toEqual({
      type: 'request',
      method: verb,
      url: `${SITE}${rest}`,
      body,
    })
  })

  test.each<[string, JsonObject, RegExp]>([
    ['/pets/{id}', {}, /id is part of the path: it must not be empty/],
    ['/pets/{id}', { id: '' }, /must not be empty/],
    ['/pets/{id}', { id: { a: 1 } }, /must be a string or a number/],
    ['/pets/{id}', { id: '..' }, /must not be "\." or "\.\."/],
    ['/pets/{a}{b}/x', { a: '.', b: '.' }, /must not be "\." or "\.\."/],
    ['/pets{?q}', { q: [{ a: 1 }] }, /q is part of the query/],
    ['/pets', { q: 'x'.repeat(9000) }, /longer than 8192/],
  ])('%s with invalid input is reported in readable words', (path, input, message) => {
    expect(toolRequest({ method: 'GET', url: `${SITE}${path}` }, input)).toEqual({
      type: 'fault',
      message: expect.stringMatching(message),
    })
  })

  test('an input never reaches another host or path', () => {
    for (const id of ['@evil.example', '//evil.example', '\\evil', '%2e%2e', 'a?b#c', '../..', '..%2f'])
      for (const path of ['/pets/{id}/toys', '/pets/{id}']) {
        const request = toolRequest({ method: 'GET', url: `${SITE}${path}` }, { id })
        if (request.type === 'fault') continue
        const { origin, pathname, search, hash } = new URL(request.url)
        expect({ origin, segments: pathname.split('/').length, search, hash }).toEqual({
          origin: SITE,
          segments: path.split('/').length,
          search: '',
          hash: '',
        })
      }
  })

  test.each([
    ['/pets/{}', /not a list of input names/],
    ['/pets/{a b}', /not a list of input names/],
    ['/pets/{a*}', /asterisk/],
    ['/pets/{a', /brace/],
    ['/pets/a}', /brace/],
  ])('the template %s is refused', (path, message) => {
    expect(templateFault(`${SITE}${path}`)).toMatch(message)
  })

  test.each(['https://api.example.com{path}', 'https://{shop}/v1', 'http://{host}', 'https://a{b}.example.com/x'])(
    'has no input in its host, which decides who gets the headers: %s',
    (url) =>
      expect(templateFault(url)).toBe('The URL can contain placeholders for inputs only after the host and a slash.'),
  )
})

test.each([
  ['', ''],
  ['/{id}', '/{id}'],
  ['/pets{?limit,tags*}', '/pets{?limit,tags*}'],
  ['?key=secret&v=1', '?key=&v='],
  ['?secret', ''],
  ['?key=a=secret&secret#secret', '?key='],
  ['/{id}?key=secret{limit}&secret{&tags}', '/{id}?key={limit}&{&tags}'],
])('the values in the query of %s are removed', (given, expected) => {
  expect(withoutQueryValues(`${SITE}${given}`)).toBe(`${SITE}${expected}`)
})
