/** Headers of every HTTP response that streams: proxies must pass its data on at once (nginx), and not compress it. */
export const STREAM_HEADERS = { 'x-accel-buffering': 'no', 'cache-control': 'no-store, no-transform' }
