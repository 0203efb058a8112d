/** Headers of every streaming HTTP response: they keep proxies from buffering (nginx) and compressing its data. */
export const STREAM_HEADERS = { 'x-accel-buffering': 'no', 'cache-control': 'no-store, no-transform' }
