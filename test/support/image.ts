import { readFileSync } from 'node:fs'
import path from 'node:path'

/** The Dockerfile, with each instruction in one line. */
export const dockerfile = readFileSync(path.resolve(import.meta.dirname, '../../Dockerfile'), 'utf8').replaceAll(
  '\\\n',
  ' ',
)

/** The instructions of the stage that runs. */
export const image = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '))

/** The environment of the image. */
export const imageEnv = Object.fromEntries(
  [...(/^ENV (.*)$/m.exec(image)?.[1] ?? '').matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
)

const commandOf = (instruction: RegExp) => JSON.parse(instruction.exec(image)?.[1] ?? '[]') as string[]
export const imageCommand = commandOf(/^CMD (\[.*\])$/m)
/** The program and arguments of the image's health check. */
export const healthCheck = commandOf(/^HEALTHCHECK .*CMD (\[.*\])$/m)
