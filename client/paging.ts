import { errorOf } from './errors.ts'

const SMALLER = 4

/**
 * Requests a page, and a smaller one where the server finds it too much for one response: what others wrote may be long.
 * @param request asks for at most `size` items; the page says by its `pageInfo` whether there are more
 * @throws ParleyError where not even one item can be had, and for every other reason
 */
export async function requestPage<Page>(size: number, request: (size: number) => Promise<Page>): Promise<Page> {
  try {
    return await request(size)
  } catch (failure) {
    if (errorOf(failure).code !== 'QUERY_TOO_COMPLEX' || size <= 1) throw failure
    return requestPage(Math.max(1, Math.floor(size / SMALLER)), request)
  }
}
