// parley replay <file>…: repeats recordings on the engine of this release, without network and keys. Exit code 0: all equal;
// 1: one is different, and its first divergence is printed; 2: a file cannot be replayed.
import { messageOf } from '../src/lib/errors.ts'
import { UnusableRecordingError } from '../src/replay/recording.ts'
import { describeReplay, replay } from '../src/replay/replay.ts'

let code = 0
for (const file of process.argv.slice(2)) {
  try {
    const replayed = await replay(file)
    console.log(describeReplay(file, replayed))
    if (!replayed.isEqual) code = Math.max(code, 1)
  } catch (error) {
    console.error(error instanceof UnusableRecordingError ? error.message : `${file}: ${messageOf(error)}`)
    code = 2
  }
}
process.exit(code)
