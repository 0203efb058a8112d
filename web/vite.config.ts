import { defineConfig } from 'vite'

// Builds the console into web/dist (`npm run generate`); src/server/http/console.ts serves it from there.
export default defineConfig({
  // The path is relative, because only the server knows the prefix under which browsers reach it.
  base: './',
  // Vite would add a script, which the page's content security policy forbids.
  build: {
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
    rolldownOptions: {
      onLog: (level, log, handle) => {
        // These warnings concern only server-side rendering.
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') handle(level, log)
      },
    },
  },
  logLevel: 'warn',
})
