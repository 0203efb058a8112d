// Loaded into servers that tests start. Ends the server together with the test, even if the test is killed.
process.on('disconnect', () => process.exit(1))
process.channel?.unref()
