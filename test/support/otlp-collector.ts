import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A span from OTLP. Attributes are strings, numbers, booleans, or the first item of a list. */
export interface CollectedSpan {
  name: string
  spanId: string
  parentId: string
  traceId: string
  attributes: Record<string, string | number | boolean>
  /** Its duration in milliseconds. */
  ms: number
  /** The message of an error status. */
  error: string | null
}

export interface OtlpCollector {
  url: string
  spans: CollectedSpan[]
  headers: Record<string, string | string[] | undefined>[]
  service: string | null
  close(): Promise<void>
}

/** Receives traces through OTLP over HTTP with protobuf, on a local port. */
export async function startOtlpCollector(): Promise<OtlpCollector> {
  const collector: Omit<OtlpCollector, 'url' | 'close'> = { spans: [], headers: [], service: null }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    collector.headers.push(request.headers)
    for (const resourceSpans of read(Buffer.concat(chunks)).all(1)) {
      collector.service ??= String(attributesOf(resourceSpans.message(1).all(1))['service.name'] ?? '')
      for (const scope of resourceSpans.all(2)) collector.spans.push(...scope.all(2).map(spanOf))
    }
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(collector, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  })
}

/** Fields of opentelemetry.proto.trace.v1.Span. */
function spanOf(span: Message): CollectedSpan {
  const status = span.message(15)
  return {
    traceId: span.bytes(1).toString('hex'),
    spanId: span.bytes(2).toString('hex'),
    parentId: span.bytes(4).toString('hex'),
    name: span.bytes(5).toString(),
    ms: Number(span.bytes(8).readBigUInt64LE() - span.bytes(7).readBigUInt64LE()) / 1e6,
    attributes: attributesOf(span.all(9)),
    error: status.number(3) === 2 ? status.bytes(2).toString() : null,
  }
}

function attributesOf(pairs: Message[]): CollectedSpan['attributes'] {
  return Object.fromEntries(pairs.map((pair) => [pair.bytes(1).toString(), anyValue(pair.message(2))]))
}

/** Fields of AnyValue: text, boolean, integer, double, list. */
function anyValue(value: Message): string | number | boolean {
  if (value.has(5)) return anyValue(value.message(5).message(1))
  if (value.has(4)) return value.bytes(4).readDoubleLE()
  if (value.has(3)) return value.number(3)
  return value.has(2) ? value.number(2) === 1 : value.bytes(1).toString()
}

interface Message {
  has(field: number): boolean
  all(field: number): Message[]
  message(field: number): Message
  bytes(field: number): Buffer
  number(field: number): number
}

/** The part of protobuf's wire format that spans need. */
function read(buffer: Buffer): Message {
  const fields: { field: number; bytes: Buffer; number: number }[] = []
  let at = 0
  const varint = () => {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = buffer[at++] ?? 0
      value += (byte & 127) * shift
      if (byte < 128) return value
    }
  }
  const take = (length: number) => {
    at += length
    return buffer.subarray(at - length, at)
  }
  while (at < buffer.length) {
    const tag = varint()
    const field = Math.floor(tag / 8)
    const type = tag % 8
    if (type === 0) fields.push({ field, number: varint(), bytes: Buffer.alloc(0) })
    else fields.push({ field, number: 0, bytes: take(type === 1 ? 8 : type === 5 ? 4 : varint()) })
  }
  const first = (field: number) => fields.find((entry) => entry.field === field)
  return {
    has: (field) => first(field) !== undefined,
    all: (field) => fields.filter((entry) => entry.field === field).map(({ bytes }) => read(bytes)),
    message: (field) => read(first(field)?.bytes ?? Buffer.alloc(0)),
    bytes: (field) => first(field)?.bytes ?? Buffer.alloc(0),
    number: (field) => first(field)?.number ?? 0,
  }
}
