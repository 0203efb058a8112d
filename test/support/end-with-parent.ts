// Loaded into servers that tests start: they end with the test, even if it is killed.
process.on('disconnect', () => process.exit(1))
process.channel?.unref()
