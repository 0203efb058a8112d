import type { Attributes, Span } from '@opentelemetry/api'
import type { TelemetrySettings } from '../config.ts'

/** A span of a trace. */
export interface TelemetrySpan {
  /** Starts a child span at `startedAt`, or now by default. */
  child(name: string, attributes: Attributes, startedAt?: Date): TelemetrySpan
  set(attributes: Attributes): void
  fail(message: string): void
  /** Ends the span at the given time, or now by default. Only the first call has an effect. */
  end(at?: Date): void
}

/**
 * Exports traces over OTLP. Never throws and never waits for the collector. Traces that cannot be delivered are
 * dropped.
 */
export interface Telemetry {
  capturesContent: boolean
  /** Starts a trace and returns its first span. */
  trace(name: string, attributes: Attributes, startedAt?: Date): TelemetrySpan
  /** Exports the remaining spans, within 5 s. */
  close(): Promise<void>
}

const NO_SPAN: TelemetrySpan = { child: () => NO_SPAN, set() {}, fail() {}, end() {} }

/** Does not export traces or load OpenTelemetry. */
export const NO_TELEMETRY: Telemetry = { capturesContent: false, trace: () => NO_SPAN, async close() {} }

const CLOSE_WITHIN_MS = 5000

/** Loads OpenTelemetry and exports traces with OTLP over HTTP. Returns NO_TELEMETRY if `settings` is null. */
export async function openTelemetry(settings: TelemetrySettings | null): Promise<Telemetry> {
  if (settings === null) return NO_TELEMETRY
  const [{ context, SpanStatusCode, trace }, sdk, { OTLPTraceExporter }, resources] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-proto'),
    import('@opentelemetry/resources'),
  ])
  const { url, headers, serviceName, capturesContent } = settings
  const named = resources.resourceFromAttributes({ 'service.name': serviceName })
  const provider = new sdk.TracerProvider({
    resource: resources.detectResources({ detectors: [resources.resourceAttributesEnvDetector] }).merge(named),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new OTLPTraceExporter({ url, headers }) })],
  })
  const tracer = provider.getTracer('parley')

  function spanOf(span: Span): TelemetrySpan {
    const within = trace.setSpan(context.active(), span)
    return {
      child: (name, attributes, startTime = new Date()) =>
        spanOf(tracer.startSpan(name, { attributes, startTime }, within)),
      set: (attributes) => void span.setAttributes(attributes),
      fail: (message) => void span.setStatus({ code: SpanStatusCode.ERROR, message }),
      end(at) {
        if (span.isRecording()) span.end(at)
      },
    }
  }

  return {
    capturesContent,
    trace: (name, attributes, startTime = new Date()) =>
      spanOf(tracer.startSpan(name, { attributes, startTime, root: true })),
    async close() {
      const late = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_WITHIN_MS).unref())
      await Promise.race([provider.shutdown().catch(() => {}), late])
    },
  }
}
