// Loaded into servers that tests start: they end with the test, also where it is killed and can end nothing itself.
process.on('disconnect', () => process.exit(1))
process.channel?.unref()
