/**
 * Headers of every streaming HTTP response. They keep proxies from compressing the response, and from buffering it
 * (nginx).
 */
export const STREAM_HEADERS = { 'x-accel-buffering': 'no', 'cache-control': 'no-store, no-transform' }
