/** The options of `parley export`. */
export const EXPORT_OPTIONS = {
  /** The id of the space; or the first positional argument. */
  space: { type: 'string' },
  /** The file to write, by default standard output; or the second positional argument. */
  out: { type: 'string' },
} as const

/** The options of `parley backtest`. */
export const BACKTEST_OPTIONS = {
  /** agent.<id or name>.<field>=<value>; `@file` as the value reads the text from a file. */
  set: { type: 'string', multiple: true },
  /** A JSON file with checks. */
  checks: { type: 'string' },
  /** `real` (the default) calls the configured models for changed agents; `recorded` uses the recorded responses. */
  models: { type: 'string' },
  /** The model that evaluates rubrics. */
  judge: { type: 'string' },
  junit: { type: 'string' },
  markdown: { type: 'string' },
} as const
