// Which part of src/ may import which: the arrows of docs/architecture.md, one line each. Imports go down through the layers, and
// never in a circle. `values` lists the parts that a part may import; from the parts in `types` it may import types only.
// The parts of the domain refer to each other by id, and to the viewer by its type. Confidentiality labels concern all of them.
const DOMAIN = {
  values: ['lib', 'rules', 'platform', 'jobs', 'broker', 'generated', 'confidentiality', 'stores'],
  types: ['access', 'config'],
}
const ARROWS = {
  lib: {},
  config: { values: ['lib'] },
  platform: { values: ['lib', 'generated'], types: ['config', 'broker', 'jobs'] },
  // The one queue of jobs besides runs: its kinds, how they are enqueued, and the worker that runs them.
  jobs: { values: ['lib', 'platform', 'generated'] },
  broker: { values: ['lib'], types: ['platform', 'config', 'generated'] },
  models: { values: ['lib', 'stores'], types: ['platform', 'config'] },
  // Pure functions over plain facts: no transaction, no platform, nothing asynchronous.
  rules: { values: ['lib', 'confidentiality'], types: ['generated', 'platform'] },
  // One file per table, the only file that writes it, and fragments of SQL that several tables share.
  stores: { values: ['lib', 'rules', 'platform', 'jobs', 'generated', 'confidentiality'], types: ['config'] },
  // The rules about where content comes from and where it may go, and their fragments of SQL.
  confidentiality: { values: ['lib', 'generated'], types: ['platform'] },
  access: DOMAIN,
  spaces: DOMAIN,
  agents: { ...DOMAIN, types: [...DOMAIN.types, 'models'] },
  runs: { ...DOMAIN, values: [...DOMAIN.values, 'spaces'] },
  plans: DOMAIN,
  // Files of messages: their bytes, types and texts, and who may read them.
  files: DOMAIN,
  // One file per transaction: reads facts, lets a rule decide, commits, publishes.
  flows: {
    ...DOMAIN,
    values: [...DOMAIN.values, 'spaces', 'agents', 'runs', 'plans', 'files', 'access'],
    types: [...DOMAIN.types, 'models'],
  },
  tools: { ...DOMAIN, values: [...DOMAIN.values, 'flows', 'spaces', 'agents', 'runs', 'plans', 'files'] },
  posting: { ...DOMAIN, values: [...DOMAIN.values, 'spaces', 'runs', 'flows', 'tools'] },
  // What a model is shown, and what a persistent agent remembers of it.
  context: {
    ...DOMAIN,
    values: [...DOMAIN.values, 'flows', 'spaces', 'agents', 'runs', 'files', 'tools'],
    types: [...DOMAIN.types, 'models'],
  },
  engine: {
    ...DOMAIN,
    values: [...DOMAIN.values, 'models', 'flows', 'spaces', 'agents', 'runs', 'files', 'tools', 'posting', 'context'],
  },
  // For operators: retention, deletion and erasure, export and import, failed jobs.
  operation: { ...DOMAIN, values: [...DOMAIN.values, 'flows', 'spaces', 'agents', 'runs', 'plans', 'files', 'tools'] },
  graphql: {
    values: ['lib', 'rules'],
    types: [
      ...['access', 'models', 'spaces', 'agents', 'runs', 'plans', 'files', 'operation', 'confidentiality'],
      ...['broker', 'platform', 'config', 'stores', 'context', 'flows', 'tools'],
    ],
  },
  delivery: { values: ['lib', 'rules', 'platform', 'broker', 'access', 'graphql'], types: ['config', 'app', 'spaces'] },
  // Other protocols than GraphQL. They run its operations, through a port that the server implements.
  doors: { values: ['lib', 'rules', 'broker'], types: ['access', 'graphql'] },
  server: {
    values: ['lib', 'rules', 'platform', 'broker', 'access', 'graphql', 'delivery', 'doors'],
    types: ['config', 'app', 'files', 'spaces'],
  },
  app: {
    values: [
      ...[
        'lib',
        'rules',
        'stores',
        'flows',
        'config',
        'platform',
        'jobs',
        'broker',
        'models',
        'access',
        'spaces',
        'agents',
        'runs',
        'plans',
        'files',
        'confidentiality',
        'delivery',
      ],
      ...['tools', 'posting', 'context', 'operation', 'engine', 'graphql', 'server'],
    ],
  },
  // The room as a test: replays and backtests of recordings, on an application of their own.
  replay: {
    values: [
      'rules',
      'confidentiality',
      'context',
      'lib',
      'config',
      'platform',
      'generated',
      'broker',
      'models',
      'stores',
      'agents',
      'tools',
      'jobs',
      'operation',
      'app',
    ],
    types: ['access'],
  },
  main: { values: ['lib', 'config', 'platform', 'app', 'server'] },
}

/** A part is a folder of src/, or a file directly in it. */
const pathOf = (part) => `^src/${part}(/|\\.ts$)`

const anyOf = (parts) => `^src/(${parts.join('|')})(/|\\.ts$)`

const arrows = Object.entries(ARROWS).flatMap(([part, { values = [], types = [] }]) => [
  {
    name: `${part} imports only ${values.join(', ') || 'itself'}`,
    severity: 'error',
    from: { path: pathOf(part) },
    to: { path: '^src/', pathNot: anyOf([part, ...values]), dependencyTypesNot: ['type-only'] },
  },
  {
    name: `${part} imports only types of ${types.join(', ') || 'no further parts'}`,
    severity: 'error',
    from: { path: pathOf(part) },
    to: { path: '^src/', pathNot: anyOf([part, ...values, ...types]), dependencyTypes: ['type-only'] },
  },
])

module.exports = {
  forbidden: [
    ...arrows,
    {
      name: 'every part of src/ is listed in ARROWS',
      severity: 'error',
      from: { path: '^src/', pathNot: anyOf([...Object.keys(ARROWS), 'generated']) },
      to: {},
    },
    { name: 'no circular imports', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'production code does not import tests, benchmarks or scripts',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|bench|scripts|web|client|examples)/' },
    },
    {
      name: 'the console, the client package and the examples do not import the server, tests, benchmarks or scripts',
      severity: 'error',
      from: { path: '^(web|client|examples)/', pathNot: '^examples/test/' },
      to: { path: '^(src|test|bench|scripts)/' },
    },
    {
      name: 'the client package does not import the console or the examples',
      severity: 'error',
      from: { path: '^client/' },
      to: { path: '^(web|examples|generated)/' },
    },
    {
      name: 'production code imports production dependencies only',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'every import can be resolved, and package.json lists its package',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
    { name: 'no unused files', severity: 'error', from: { orphan: true, path: '^src/' }, to: {} },
  ],
  options: {
    doNotFollow: { path: ['node_modules', '(^|/)(__)?generated(__)?/'] },
    exclude: { path: ['^web/dist/', '^client/dist/', '^dist/'] },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
}
