#!/usr/bin/env node
// The command `parley`. ES5 only, so that a Node that is too old can parse the file and print an error. A new enough Node
// continues in run.cjs.
'use strict'
var node = require('./node-version.cjs')

if (node.isNewEnough(process.versions.node)) {
  require('./run.cjs')
} else {
  console.error('parley needs Node ' + node.needed + ' or newer, and this is Node ' + process.versions.node + '.')
  process.exit(1)
}
