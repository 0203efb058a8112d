import { defineConfig } from 'vite'

// The console, built into web/dist by `npm run generate`; src/server/http/console.ts serves it from there.
export default defineConfig({
  base: '/console/',
  // The page's policy forbids what Vite would put into it.
  build: {
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
    rolldownOptions: {
      onLog: (level, log, handle) => {
        // For servers that render: there is none.
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') handle(level, log)
      },
    },
  },
  logLevel: 'warn',
})
