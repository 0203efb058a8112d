// Which part may import which: the arrows of docs/architecture.md, one line each. They point down; there is no way back up and no
// way around in a circle. `types` names parts of which a file may import types, and nothing that runs.
// The siblings know each other by id, and the viewer by its type.
// What is said in confidence concerns all of them.
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
  models: { values: ['lib'], types: ['platform', 'config'] },
  // Pure functions over plain facts: no transaction, no platform, nothing asynchronous.
  rules: { values: ['lib', 'confidentiality'], types: ['generated', 'platform'] },
  // One file per table, its only writer; and fragments of SQL that several tables share.
  stores: { values: ['lib', 'rules', 'platform', 'jobs', 'generated', 'confidentiality'], types: ['config'] },
  // Where words come from, and where they may go: rules, and the fragments of SQL that go with them.
  confidentiality: { values: ['lib', 'generated'], types: ['platform'] },
  access: DOMAIN,
  spaces: DOMAIN,
  agents: DOMAIN,
  runs: { ...DOMAIN, values: [...DOMAIN.values, 'spaces'] },
  plans: DOMAIN,
  // One file per transaction: reads facts, lets a rule decide, commits, publishes.
  flows: { ...DOMAIN, values: [...DOMAIN.values, 'spaces', 'agents', 'runs', 'plans', 'access'] },
  tools: { ...DOMAIN, values: [...DOMAIN.values, 'flows', 'spaces', 'agents', 'runs', 'plans'] },
  posting: { ...DOMAIN, values: [...DOMAIN.values, 'spaces', 'runs', 'flows', 'tools'] },
  // What a model is shown, and what a mind keeps of it.
  context: { ...DOMAIN, values: [...DOMAIN.values, 'flows', 'spaces', 'agents', 'runs', 'tools'] },
  engine: {
    ...DOMAIN,
    values: [...DOMAIN.values, 'models', 'flows', 'spaces', 'agents', 'runs', 'tools', 'posting', 'context'],
  },
  // What a team that runs Parley for years does with it: it ends things, keeps them for a time, and moves them.
  operation: { ...DOMAIN, values: [...DOMAIN.values, 'flows', 'spaces', 'agents', 'runs', 'plans', 'tools'] },
  graphql: {
    values: ['lib', 'rules'],
    types: [
      ...['access', 'models', 'spaces', 'agents', 'runs', 'plans', 'operation', 'confidentiality'],
      ...['broker', 'platform', 'config', 'stores', 'context', 'flows', 'tools'],
    ],
  },
  delivery: { values: ['lib', 'rules', 'platform', 'broker', 'access', 'graphql'], types: ['config', 'app'] },
  server: { values: ['lib', 'rules', 'platform', 'broker', 'access', 'graphql', 'delivery'], types: ['config', 'app'] },
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
        'confidentiality',
        'delivery',
      ],
      ...['tools', 'posting', 'context', 'operation', 'engine', 'graphql', 'server'],
    ],
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
    name: `${part} imports only types of ${types.join(', ') || 'nothing further'}`,
    severity: 'error',
    from: { path: pathOf(part) },
    to: { path: '^src/', pathNot: anyOf([part, ...values, ...types]), dependencyTypes: ['type-only'] },
  },
])

module.exports = {
  forbidden: [
    ...arrows,
    {
      name: 'every part of src/ has its arrows here',
      severity: 'error',
      from: { path: '^src/', pathNot: anyOf([...Object.keys(ARROWS), 'generated']) },
      to: {},
    },
    { name: 'no circles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'what runs in production does not import tests, benchmarks or scripts',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|bench|scripts|web|client|examples)/' },
    },
    {
      name: 'the console is a client like any other',
      severity: 'error',
      from: { path: '^(web|client|examples)/', pathNot: '^examples/test/' },
      to: { path: '^(src|test|bench|scripts)/' },
    },
    {
      name: 'what others build on knows nothing of the console',
      severity: 'error',
      from: { path: '^client/' },
      to: { path: '^(web|examples|generated)/' },
    },
    {
      name: 'what runs in production imports production dependencies only',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'every import is found, and its package stands in package.json',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
    { name: 'no file that nothing uses', severity: 'error', from: { orphan: true, path: '^src/' }, to: {} },
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
