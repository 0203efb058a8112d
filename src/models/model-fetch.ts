/** Far more than any answer holds; a body without an end must not fill the memory. */
const LARGEST_ANSWER_BYTES = 64 * 1024 * 1024

/**
 * `fetch` for what providers send: it follows no redirect, which would carry a key in a header of its own to another host, and
 * breaks off an answer that does not end.
 */
export async function modelFetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(input, { ...init, redirect: 'error' })
  if (response.body === null) return response
  const reader = response.body.getReader()
  let bytes = 0
  // Read as it is asked for: to lead each chunk through a stream in between costs more than to count it.
  const limited = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read()
        if (done) return controller.close()
        bytes += value.byteLength
        if (bytes <= LARGEST_ANSWER_BYTES) return controller.enqueue(value)
        const error = new Error('The provider sent more than 64 MiB.')
        await reader.cancel(error)
        throw error
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
  return new Response(limited, response)
}
