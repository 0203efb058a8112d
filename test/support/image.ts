import { readFileSync } from 'node:fs'
import path from 'node:path'

/** The Dockerfile, each of its instructions in one line. */
export const dockerfile = readFileSync(path.resolve(import.meta.dirname, '../../Dockerfile'), 'utf8').replaceAll(
  '\\\n',
  ' ',
)

/** What of it makes the image that runs. */
export const image = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '))

/** The environment that the image has by itself. */
export const imageEnv = Object.fromEntries(
  [...(/^ENV (.*)$/m.exec(image)?.[1] ?? '').matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
)

const commandOf = (instruction: RegExp) => JSON.parse(instruction.exec(image)?.[1] ?? '[]') as string[]
export const imageCommand = commandOf(/^CMD (\[.*\])$/m)
/** What its health is checked by: a program and what that is given. */
export const healthCheck = commandOf(/^HEALTHCHECK .*CMD (\[.*\])$/m)
