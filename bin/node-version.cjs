// ES5 only: this file must run on every Node, however old.
'use strict'
var fs = require('fs')
var path = require('path')

// A clone runs its TypeScript files directly, which Node supports from 22.18 on. The published package is JavaScript.
var isClone = fs.existsSync(path.join(__dirname, '../src/main.ts'))
var needed = isClone ? [22, 18] : [22, 12]

exports.isClone = isClone
exports.needed = needed.join('.')

/** Returns whether a version of Node, as in `process.versions.node`, is new enough. */
exports.isNewEnough = (version) => {
  var parts = version.split('.').map(Number)
  return parts[0] > needed[0] || (parts[0] === needed[0] && parts[1] >= needed[1])
}
