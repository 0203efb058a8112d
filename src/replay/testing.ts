// The package's export `parley/testing`.
export { type Divergence, type DivergenceKind } from './compare.ts'
export { type Recording, UnusableRecordingError } from './recording.ts'
export { openRecording, type Replayed, replay } from './replay.ts'
export { type Backtest, type BacktestOptions, backtest, type Check } from './backtest.ts'
