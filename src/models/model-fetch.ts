/** Far more than any response needs; bounds the memory for an endless body. */
const LARGEST_ANSWER_BYTES = 64 * 1024 * 1024

/**
 * A `fetch` for providers. Does not follow redirects, because a custom header with a key would reach another host, and
 * aborts responses larger than 64 MiB.
 */
export async function modelFetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(input, { ...init, redirect: 'error' })
  if (response.body === null) return response
  const reader = response.body.getReader()
  let bytes = 0
  // A pull source is cheaper than a TransformStream, which copies each chunk.
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
