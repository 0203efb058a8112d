// Loaded into servers that tests start. Sets their clock ahead of the true time by TEST_CLOCK_SKEW_MS, or behind if that is
// negative.
const skewMs = Number(process.env.TEST_CLOCK_SKEW_MS ?? 0)

if (skewMs !== 0) {
  const TrueDate = Date
  globalThis.Date = class extends TrueDate {
    constructor(...given: unknown[]) {
      super(...((given.length === 0 ? [TrueDate.now() + skewMs] : given) as [number]))
    }
    static override now() {
      return TrueDate.now() + skewMs
    }
  } as DateConstructor
}

export {}
