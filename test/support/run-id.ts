/** Identifies this test run in the names of everything that it creates outside of its processes. */
export const runId = () => process.env['TEST_RUN'] ?? 'alone'
