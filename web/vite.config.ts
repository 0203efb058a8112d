import { defineConfig } from 'vite'

// Builds the console into web/dist (`npm run generate`); src/server/http/console.ts serves it from there.
export default defineConfig({
  // Relative, because only the server knows under which prefix browsers reach it.
  base: './',
  // The page's content security policy forbids the script that Vite would add.
  build: {
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
    rolldownOptions: {
      onLog: (level, log, handle) => {
        // Only needed for server-side rendering.
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') handle(level, log)
      },
    },
  },
  logLevel: 'warn',
})
