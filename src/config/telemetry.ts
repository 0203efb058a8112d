import { z } from 'zod'
import { percentDecoded } from '../lib/percent-encoding.ts'

/** The target of exported traces, from the standard OpenTelemetry variables. */
export interface TelemetrySettings {
  /** The value of OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or of OTEL_EXPORTER_OTLP_ENDPOINT with `/v1/traces` appended. */
  url: string
  /** The headers in OTEL_EXPORTER_OTLP_HEADERS and its variant for traces. */
  headers: Record<string, string>
  /** The value of OTEL_SERVICE_NAME. */
  serviceName: string
  /**
   * The value of OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: whether traces also contain the input and output
   * of models and tools.
   */
  capturesContent: boolean
}

/** Parses `name=value,name=value` with percent-encoded values, as the OpenTelemetry specification defines. */
const headers = z
  .string()
  .transform((value) => value.split(',').map((pair) => pair.split('=')))
  .refine((pairs) => pairs.every(([name = '', ...value]) => name.trim() !== '' && value.length > 0), {
    message: 'must be name=value pairs, separated by commas',
  })
  .transform((pairs) => pairs.map(([name = '', ...value]) => [name.trim(), decoded(value.join('=').trim())]))
  .transform((pairs): Record<string, string> => Object.fromEntries(pairs))
  .optional()

const decoded = (text: string): string => percentDecoded(text) ?? text

const endpoint = z
  .string()
  .refine((value) => URL.canParse(value) && ['http:', 'https:'].includes(new URL(value).protocol), {
    message: 'must be a URL that begins with http:// or https://',
  })
  .optional()
const text = z.string().min(1).optional()

export const TELEMETRY_VARIABLES = {
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: endpoint,
  OTEL_EXPORTER_OTLP_HEADERS: headers,
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: headers,
  OTEL_SERVICE_NAME: z.string().min(1).default('parley'),
  OTEL_SDK_DISABLED: text,
  OTEL_TRACES_EXPORTER: text,
  OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: text,
}

type Variables = z.infer<z.ZodObject<typeof TELEMETRY_VARIABLES>>

/** Returns null unless an endpoint is set and traces are not disabled. */
export function telemetryOf(set: Variables): TelemetrySettings | null {
  const general = set.OTEL_EXPORTER_OTLP_ENDPOINT
  const url =
    set.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (general === undefined ? null : `${general.replace(/\/$/, '')}/v1/traces`)
  const isOff = set.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || set.OTEL_TRACES_EXPORTER === 'none'
  if (url === null || isOff) return null
  return {
    url,
    headers: { ...set.OTEL_EXPORTER_OTLP_HEADERS, ...set.OTEL_EXPORTER_OTLP_TRACES_HEADERS },
    serviceName: set.OTEL_SERVICE_NAME,
    capturesContent: set.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT?.toLowerCase() === 'true',
  }
}
