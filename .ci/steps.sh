# Steps for .ci/run and .ci/nightly, which count passes and failures. Bash sources this file in the project's root.
results=.ci/results
passed=0 failed=0 failures='' unsteady='' times=''

finish() {
  printf 'seconds of each step:%s\n' "$times"
  if [ -n "$unsteady" ]; then printf 'failed in the first attempt:%s\n' "$unsteady"; fi
  if [ -n "$failures" ]; then printf 'failed:%s\n' "$failures"; fi
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# Runs a script of this project with Node. `npm ci` links Node into node_modules/.bin if the machine's Node is too old, or with CI=true.
run_node() {
  local program=node_modules/.bin/node
  if [ ! -x "$program" ]; then program=node; fi
  "$program" "$@"
}

# Counts a failure, and adds its name to the list that `finish` prints.
fail() {
  failed=$((failed + 1))
  failures="$failures
  $1"
}

# Adds the duration of a step to the list that `finish` prints: keep_time <SECONDS at its start> <step>
keep_time() {
  times="$times
  $((SECONDS - $1)) $2"
}

# Runs one check with a time limit: check <minutes> <command…>
check() {
  local minutes=$1 since=$SECONDS code=0
  shift
  echo "+ $*"
  timeout "${minutes}m" "$@" || code=$?
  keep_time "$since" "$*"
  if [ "$code" -eq 0 ]; then passed=$((passed + 1)); else fail "$*"; return 1; fi
}

# Runs checks, two at a time, and prints the output of each under its name: checks <minutes> <npm script…>
checks() {
  local minutes=$1 since=$SECONDS name folder
  shift
  folder=$(mktemp -d)
  for name; do
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    (
      timeout "${minutes}m" npm run --silent "$name" >"$folder/$name" 2>&1
      echo $? >"$folder/$name.code"
    ) &
  done
  wait
  keep_time "$since" checks
  for name; do
    echo "+ npm run $name"
    cat "$folder/$name"
    if [ "$(cat "$folder/$name.code")" = 0 ]; then passed=$((passed + 1)); else fail "npm run $name"; fi
  done
  rm -rf "$folder"
}

# Runs vitest: run_tests <minutes> <report> <npm script> [test file…]
run_tests() {
  local minutes=$1 report=$2
  shift 2
  echo "+ npm run $1${2:+ -- ${*:2}}"
  timeout "${minutes}m" npm run --silent "$1" -- --reporter=default --reporter=json --outputFile.json="$report" "${@:2}"
}

# Runs vitest and counts each test: tests <minutes> <npm script>
# Files with failed tests run a second time, without the load of the other files. Tests that fail again are failures. Tests that
# pass the second time are listed above the last line, because a test that depends on load must be fixed too.
tests() {
  local minutes=$1 script=$2 since=$SECONDS code=0 counts files again
  local first="$results/${script//:/-}.json" second="$results/${script//:/-}-again.json"
  run_tests "$minutes" "$first" "$script" || code=$?
  keep_time "$since" "$script"
  if ! counts=$(run_node scripts/test-report.ts counts "$first"); then fail "$script wrote no report"; return; fi
  # vitest can fail without a failed test: after an unhandled error, or at the time limit.
  if [ "$code" -ne 0 ] && [ "${counts#* }" -eq 0 ]; then fail "$script ended with $code, without a failed test"; fi
  mapfile -t files < <(run_node scripts/test-report.ts files "$first")
  if [ "${#files[@]}" -gt 0 ] && [ "${#files[@]}" -le 12 ]; then
    since=$SECONDS
    run_tests "$minutes" "$second" "$script" "${files[@]}" --no-file-parallelism
    keep_time "$since" "$script again"
    if again=$(run_node scripts/test-report.ts counts "$first" "$second"); then
      unsteady="$unsteady
$(run_node scripts/test-report.ts names "$first" | sed 's/^/  /')"
      counts=$again
      first=$second
    fi
  fi
  passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
  if [ "${counts#* }" -gt 0 ]; then
    failures="$failures
$(run_node scripts/test-report.ts names "$first" | sed 's/^/  /')"
  fi
}

# Programs that tests run, and their Debian packages. Without these programs the tests are skipped, which must not happen in CI.
: "${CHROMIUM:=/usr/bin/chromium}"
programs="
$CHROMIUM chromium
nginx nginx-light
pgbouncer pgbouncer
"

# Installs those of these programs that are missing, if the script runs as root on a machine with apt-get.
install_programs() {
  local program package missing=''
  while read -r program package; do
    if [ -n "$program" ] && ! command -v "$program" >/dev/null; then missing="$missing $package"; fi
  done <<<"$programs"
  if [ -z "$missing" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
  check 5 sh -c "apt-get update -q && apt-get install -y -q --no-install-recommends $missing"
}
