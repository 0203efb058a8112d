// `npm ci` and `npm install` run this script in a clone. ES5 only, because it also runs on an old Node.
// If Node is too old for the other scripts, this script installs Node 24 as a package into node_modules/.node. It links that
// Node into node_modules/.bin, which comes first on the PATH of every `npm run` script. A production install (`--omit=dev`)
// installs no Node.
// package.json calls this script `postprepare`, because npm also runs `prepare` before it packs, and warns about a `prepare`
// script when the packed file is installed.
'use strict'
var childProcess = require('child_process')
var fs = require('fs')
var path = require('path')
var node = require('../bin/node-version.cjs')

var VERSION = '24.21.0'
var root = path.join(__dirname, '..')
var isWindows = process.platform === 'win32'
var hasTools = fs.existsSync(path.join(root, 'node_modules/vite'))

prepare()

function prepare() {
  var program = process.execPath
  if (!node.isNewEnough(process.versions.node)) {
    if (!hasTools) {
      console.error(
        'Parley needs Node ' + node.needed + ' or newer to run, and this is Node ' + process.versions.node + '.',
      )
      return
    }
    program = fetchNode()
  } else if (process.env.CI && !isWindows) {
    // Gives CI scripts the same path node_modules/.bin/node on every machine.
    link(program)
  }
  var run = childProcess.spawnSync(program, [path.join(__dirname, 'prepare.ts')], { cwd: root, stdio: 'inherit' })
  if (run.error) throw run.error
  process.exitCode = run.status === null ? 1 : run.status
}

/** Installs Node as a package and links it. Returns the path of the executable. */
function fetchNode() {
  var name = packageName()
  var folder = path.join(root, 'node_modules/.node')
  var options = [
    'install',
    '--prefix',
    folder,
    '--no-save',
    '--no-package-lock',
    '--ignore-scripts',
    '--no-audit',
    name + '@' + VERSION,
  ]
  console.error(
    'This is Node ' + process.versions.node + ', and Parley needs ' + node.needed + ': fetching Node ' + VERSION + ' …',
  )
  fs.mkdirSync(folder, { recursive: true })
  var npm = process.env.npm_execpath
  var run = npm
    ? childProcess.spawnSync(process.execPath, [npm].concat(options), { stdio: ['ignore', 'ignore', 'inherit'] })
    : childProcess.spawnSync('npm', options, { stdio: ['ignore', 'ignore', 'inherit'], shell: isWindows })
  var program = path.join(folder, 'node_modules', name, 'bin', isWindows ? 'node.exe' : 'node')
  if (run.status !== 0 || !fs.existsSync(program)) {
    throw new Error(
      'Node ' +
        VERSION +
        ' could not be fetched as ' +
        name +
        ': install Node ' +
        node.needed +
        ' or newer, and run npm ci again.',
    )
  }
  // The headers for C++ addons and the documentation are unused, and a third of the package.
  fs.rmSync(path.join(folder, 'node_modules', name, 'include'), { recursive: true, force: true })
  fs.rmSync(path.join(folder, 'node_modules', name, 'share'), { recursive: true, force: true })
  link(program)
  return program
}

/** Returns the name of the npm package that contains Node for this machine. */
function packageName() {
  var platform = isWindows ? 'win' : process.platform
  var prefix = process.platform === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node'
  return [prefix, platform, process.arch].join('-')
}

function link(program) {
  var bin = path.join(root, 'node_modules/.bin')
  fs.mkdirSync(bin, { recursive: true })
  if (isWindows) return fs.writeFileSync(path.join(bin, 'node.cmd'), '@"' + program + '" %*\r\n')
  var target = path.join(bin, 'node')
  fs.rmSync(target, { force: true })
  fs.symlinkSync(path.relative(bin, program), target)
}
