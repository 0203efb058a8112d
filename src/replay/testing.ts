// biome-ignore-all lint/performance/noBarrelFile: the package's export `parley/testing`

export { type Backtest, type BacktestOptions, backtest, type Check } from './backtest.ts'
export type { Divergence, DivergenceKind } from './compare.ts'
export { type Recording, UnusableRecordingError } from './recording.ts'
export { openRecording, type Replayed, replay } from './replay.ts'
