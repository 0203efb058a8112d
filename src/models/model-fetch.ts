/** Far more than any answer holds; a body without an end must not fill the memory. */
const LARGEST_ANSWER_BYTES = 64 * 1024 * 1024

/**
 * `fetch` for what providers send: it follows no redirect, which would carry a key in a header of its own to another host, and
 * breaks off an answer that does not end.
 */
export async function modelFetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(input, { ...init, redirect: 'error' })
  if (response.body === null) return response
  let bytes = 0
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength
      if (bytes > LARGEST_ANSWER_BYTES) controller.error(new Error('The provider sent more than 64 MiB.'))
      else controller.enqueue(chunk)
    },
  })
  return new Response(response.body.pipeThrough(limit), response)
}
