const { isClone } = require('./node-version.cjs')

module.exports = import(isClone ? '../scripts/parley.ts' : '../dist/scripts/parley.js')
