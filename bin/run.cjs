// Needs Node 22.12 or newer, which bin/parley.cjs has checked.
'use strict'
const { spawn } = require('node:child_process')
const { constants } = require('node:os')
const { isClone } = require('./node-version.cjs')

/** Parley locks its data directory with SQLite. Node 22.12 offers SQLite only with this option; Node 22.13 offers it without. */
const SQLITE = '--experimental-sqlite'
const QUIET = '--disable-warning=ExperimentalWarning'

if (process.versions.node.startsWith('22.12.') && !process.execArgv.includes(SQLITE)) runAgain()
else void import(isClone ? '../scripts/parley.ts' : '../dist/scripts/parley.js')

/** Runs the command again with the option, in a child process that gets the signals of this one. */
function runAgain() {
  const child = spawn(process.execPath, [SQLITE, QUIET, ...process.execArgv, ...process.argv.slice(1)], {
    stdio: 'inherit',
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (constants.signals[signal] ?? 0)
  })
}
