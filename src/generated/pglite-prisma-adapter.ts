export { PrismaPGlite } from './pglite-prisma-adapter/index.mjs'
