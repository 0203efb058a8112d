import { errorOf } from './errors.ts'

const SMALLER = 4

/**
 * Requests a page. If the server rejects the page because it is too large for one response, requests a smaller page.
 * @param request requests at most `size` items; the page's `pageInfo` says whether there are more
 * @throws ParleyError if not even one item fits, and for any other failure
 */
export async function requestPage<Page>(size: number, request: (size: number) => Promise<Page>): Promise<Page> {
  try {
    return await request(size)
  } catch (failure) {
    if (errorOf(failure).code !== 'QUERY_TOO_COMPLEX' || size <= 1) throw failure
    return requestPage(Math.max(1, Math.floor(size / SMALLER)), request)
  }
}
