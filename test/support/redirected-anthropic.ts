// Loaded into a server that a test starts. Redirects its requests to Anthropic to the model server of TEST_ANTHROPIC_URL.
const ANTHROPIC = 'https://api.anthropic.com/v1'
const trueFetch = globalThis.fetch

globalThis.fetch = (input, init) => {
  const url = String(input instanceof Request ? input.url : input)
  return url.startsWith(`${ANTHROPIC}/`)
    ? trueFetch(`${process.env.TEST_ANTHROPIC_URL}${url.slice(ANTHROPIC.length)}`, init)
    : trueFetch(input, init)
}

export {}
