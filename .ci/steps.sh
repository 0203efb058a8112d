# Steps that .ci/run and .ci/nightly share, and that count passes and failures. Sourced by bash from the project's root.
results=.ci/results
passed=0 failed=0

finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# Runs Node for a script of this project. `npm ci` links a Node into node_modules/.bin if the machine's is too old, or with CI=true.
run_node() {
  local program=node_modules/.bin/node
  if [ ! -x "$program" ]; then program=node; fi
  "$program" "$@"
}

# A step that is one check: check <minutes> <command…>
check() {
  local minutes=$1
  shift
  echo "+ $*"
  if timeout "${minutes}m" "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); return 1; fi
}

# A step that is a run of vitest, counted test by test: tests <minutes> <npm script> [test file…]
tests() {
  local minutes=$1 script=$2 report="$results/$2.json" code=0 counts
  report=${report//:/-}
  shift 2
  echo "+ npm run $script${*:+ -- $*}"
  timeout "${minutes}m" npm run --silent "$script" -- --reporter=default --reporter=json --outputFile.json="$report" "$@" || code=$?
  counts=$(run_node -p '
    const report = JSON.parse(fs.readFileSync(process.argv[1], "utf8"))
    // A file that failed before its first test counts as one.
    const broken = report.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0)
    ;`${report.numPassedTests} ${report.numFailedTests + broken.length}`
  ' "$report") || counts='0 1'
  passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
  # vitest failed without a failed test: an unhandled error, or the time limit.
  if [ "$code" -ne 0 ] && [ "${counts#* }" -eq 0 ]; then failed=$((failed + 1)); fi
}

# Programs that tests run, and their Debian packages. A machine without them skips these tests, and CI must not.
: "${CHROMIUM:=/usr/bin/chromium}"
programs="
$CHROMIUM chromium
nginx nginx-light
pgbouncer pgbouncer
"

# A step that installs the missing ones of these programs, if this runs as root on a machine with apt-get.
install_programs() {
  local program package missing=''
  while read -r program package; do
    if [ -n "$program" ] && ! command -v "$program" >/dev/null; then missing="$missing $package"; fi
  done <<<"$programs"
  if [ -z "$missing" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
  check 5 sh -c "apt-get update -q && apt-get install -y -q --no-install-recommends $missing"
}
