// biome-ignore-all lint/performance/noBarrelFile: this is the entry point `parley/testing` of the package

export { type Backtest, type BacktestOptions, backtest, type Check } from './backtest.ts'
export type { Divergence, DivergenceKind } from './compare.ts'
export { type Recording, UnusableRecordingError } from './recording.ts'
export { openRecording, type Replayed, replay } from './replay.ts'
export type { GivenResult } from './world.ts'
