/** Identifies this run of the tests in the names of what it creates outside of its processes. */
export const runId = () => process.env['TEST_RUN'] ?? 'alone'
