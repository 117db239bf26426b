#!/usr/bin/env bash
# Breaks the engine on purpose, one guard at a time, in a scratch copy of this clone, and runs the tests that
# should notice. Ends with an error when a broken engine passes. Prints the table of docs/mutation.md:
#
#   src/test/mutation/run.sh > docs/mutation.md        all, some minutes
#   src/test/mutation/run.sh reaper tally              those whose name holds one of the words
set -euo pipefail
cd "$(dirname "$0")/../../.."
scratch=$(mktemp -d "${TMPDIR:-/tmp}/waybill-mutation.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

main=src/main/java/dev/waybill
schema=src/main/resources/db/waybill/V1__waybill.sql

# name | file | perl on the whole file | tests
mutations=(
  "settle: no token fence|$main/settle/Statements.java|s/ AND j\.token = \(\?::uuid\[\]\)\[s\.held\]/ AND (?::uuid[])[s.held] IS NOT NULL/g; s/ AND j\.token = (\(\?::uuid\[\]\)\[\(\?::int\[\]\)\[width_bucket\(j\.id, \?::bigint\[\]\)\]\])/ AND \$1 IS NOT NULL/|SettleTest,ReaperTest,RandomOperationsTest"
  "settle: results in the order in which they came|$main/settle/Statements.java|s/new TreeMap<Long, Settlement>\(\)/new java.util.LinkedHashMap<Long, Settlement>()/|SettleTest"
  "settle: a job is once in a batch|$main/settle/Statements.java|s/putIfAbsent\(s\.job\(\)\.id\(\), s\) != null/putIfAbsent(s.job().id(), s) != null \&\& byId.size() > 1/|SettleTest"
  "settle: after a lost answer any attempt has settled|$main/settle/Statements.java|s/ AND d\.attempt = s\.attempt//|SettleTest"
  "settle: a batch goes without its company|$main/settle/Settler.java|s/while \(more \&\& batch\.size/if (more \&\& batch.size/|SettleTest"
  "settle: batches do not lie apart|$main/settle/Settler.java|s/(long leftNanos = nextNanos - System\.nanoTime\(\))/long leftNanos = 0/|SettleTest,PoolsTest"
  "settle: who is waited for waits for the next batch|$main/settle/Settler.java|s/!batch\.get\(asked\)\.holder\(\)\.mayWait\(\)/false/|SettleTest"
  "settle: who comes alone waits for others|$main/settle/Settler.java|s/batch\.size\(\) < COMPANY \? 0 : //|SettleTest"
  "settle: what waits in a drain|$main/run/Pool.java|s/ \&\& !stopping\n(\s+\&\& !policies)/\$1/|PoolsTest"
  "settle: a short pool waits|$main/run/Pool.java|s/return slotsInUse\(\) <= plan\.slots\(\) \/ 2/return true/|PoolsTest"
  "settle: what waits beside a backlog|$main/run/Pool.java|s/ \&\& !leftSome\n/\n/|PoolsTest"
  "settle: a capped kind waits|$main/run/Pool.java|s/ \&\& !policies\.of\(attempt\.job\(\)\.kind\(\)\)\.caps\(\)\.any\(\)//|PoolsTest"
  "settle: a given back attempt stays used|$main/settle/Statements.java|s/attempt = j\.attempt - s\.given_back/attempt = j.attempt/|SettleTest"
  "settle: an attempt that was not taken is given back|$main/settle/Statements.java|s/s\.job\(\)\.exhausted\(\) \? 0 : 1/1/|SettleTest,RandomOperationsTest"
  "settle: given up when the lease is over|$main/settle/Settlement.java|s/>= AFTER_LEASE_NANOS/>= 0/|TroubledSettleTest"
  "settle: what fails together stays together|$main/settle/Trouble.java|s/case TIMED_OUT, UNKNOWN -> halve\(group, open\)/case TIMED_OUT, UNKNOWN -> groups.add(group.later(open))/|TroubledSettleTest"
  "settle: read-only connections are kept|$main/db/Database.java|s/pool\.flush\(AgroalDataSource\.FlushMode\.GRACEFUL\)/pool.getMetrics()/|TroubledSettleTest"
  "db: a connection is used on after an Error|$main/db/Database.java|s/end\(connection, error\);//|DatabaseTest"
  "settle: cancelled counts as lost|$main/settle/Statements.java|s/Settled\.CANCELLED/Settled.LOST/|SettleTest,PoolsTest"
  "settle: the last attempt is retried|$main/settle/Settler.java|s/when job\.lastAttempt\(\)/when job.attempt() < 0/|SettleTest,RandomOperationsTest"
  "settle: a missing partition is not made|$main/settle/Writer.java|s/database\.run\(Statements::makePartitions\)/database.run(c -> true)/|TroubledSettleTest"
  "cancel: a missing partition is not made|$schema|s/PERFORM waybill\.make_partitions\(\);/NULL;/|TroubledSettleTest"
  "partitions: made by the caller's right|$schema|s/LANGUAGE plpgsql SECURITY DEFINER (SET search_path = pg_catalog, pg_temp AS \\$\\$\nDECLARE\n  day date)/LANGUAGE plpgsql \$1/|TroubledSettleTest"
  "reaper: no look at the lease|$main/retain/Reaper.java|s/ AND j\.lease_until < now\(\)//g|ReaperTest,RandomOperationsTest"
  "reaper: waits for locks|$main/retain/Reaper.java|s/FOR %s SKIP LOCKED/FOR %s/|ReaperTest"
  "reaper: the crash is not counted|$main/retain/Reaper.java|s/crashes = j\.crashes \+ 1/crashes = j.crashes/|ReaperTest,RandomOperationsTest"
  "reaper: no beat for holders after an outage|$main/retain/Reaper.java|s/if \(wasAway\)/if (false)/|ReaperTest"
  "fold: what came is not summed up|$main/retain/TallyFolder.java|s/ UNION ALL SELECT kind, 'enqueued', n, NULL FROM arrived//|RetainTest"
  "recount: each statement has a snapshot of its own|$main/retain/Recount.java|s/ISOLATION LEVEL REPEATABLE READ/ISOLATION LEVEL READ COMMITTED/|RecountTest"
  "recount: everybody counts|$main/retain/Recount.java|s/;\n\s+LOCK TABLE[^\n]+//|RecountTest"
  "recount: what is told of too much is taken away|$main/retain/Recount.java|s/WHERE coalesce\(live\.n, 0\) > coalesce/WHERE coalesce(live.n, 0) <> coalesce/|RecountTest"
  "dedupe: no unique index|$schema|s/CREATE UNIQUE INDEX jobs_dedupe[^;]*;//|EnqueueTest"
  "claim: before run_at|$main/claim/Claimer.java|s/\s+AND j\.run_at <= now\(\)//|ClaimTest"
  "claim: no lock on the rows|$main/claim/Claimer.java|s/\n\s+FOR NO KEY UPDATE SKIP LOCKED//|ClaimTest"
  "claim: waits for locks|$main/claim/Claimer.java|s/FOR NO KEY UPDATE SKIP LOCKED/FOR NO KEY UPDATE/g|ClaimTest"
  "claim: the limit over all lanes is off|$main/claim/Claimer.java|s/(\) head\s+LIMIT) \?/\$1 greatest(?, 1000)/|ClaimTest,RandomOperationsTest"
  "claim: joined by id|$main/claim/Claimer.java|s/j\.ctid AS tid/j.id AS tid/; s/WHERE j\.ctid = due\.tid/WHERE j.id = due.tid/|PlanTest"
  "claim: the newest payloads too|$main/claim/Sweep.java|s/waybill\.place\((\w+)\.kind, \w+\.newest\)/waybill.place(\$1.kind, '32767')/g|ClaimTest"
  "claim: whoever lies at the place|$main/claim/Claimer.java|s/ AND j\.kind = lane\.kind AND j\.tenant = lane\.tenant//|OneHashTest"
  "sweep: whoever lies at the place|$main/claim/Sweep.java|s/ AND j\.kind = \w+\.kind\n/\n/g|OneHashTest"
  "vacuum: what is wide stays|$main/retain/Vacuum.java|s/TRUNCATE true/TRUNCATE false/|VacuumTest"
  "vacuum: what is wide for a moment is cut off|$main/retain/Vacuum.java|s/WIDE_LOOKS = 30/WIDE_LOOKS = 1/|VacuumTest"
  "vacuum: looks that lie apart add up|$main/retain/Vacuum.java|s/wideLooks\.keySet\(\)\.retainAll\(wide\);//|VacuumTest"
  "vacuum: what cannot be cut off is tried for ever|$main/retain/Vacuum.java|s/ \&\& Integer\.bitCount\(looks \/ WIDE_LOOKS\) == 1//|VacuumTest"
  "vacuum: what is full is cut off|$main/retain/Vacuum.java|s/ AND s\.live \* 128 < s\.size \/ 8//|VacuumTest"
  "caps: everybody decides|$main/claim/Headroom.java|s/WHERE pg_try_advisory_xact_lock\(7733811, hashtext\(asked\.kind\)\)/WHERE true/|CapsTest"
  "lease: extended by anybody|$main/claim/Leases.java|s/ AND j\.token = held\.token\n(\s+FOR NO KEY UPDATE)/\n\$1/|LeasesTest,RandomOperationsTest"
  "lease: anybody's is ours|$main/claim/Leases.java|s/ AND j\.token = held\.token\n(\s+\"\"\")/\n\$1/|LeasesTest"
  "lease: heartbeats wait for locks|$main/claim/Leases.java|s/OF j SKIP LOCKED/OF j/|LeasesTest"
  "run: one slot too many|$main/run/Pool.java|s/new Slots\(plan\.slots\(\)\)/new Slots(plan.slots() + 1)/|PoolsTest"
  "run: a lost lease is not told|$main/run/Watch.java|s/old\.stream\(\)\.filter\(attempt -> !ours/old.stream().filter(attempt -> false \&\& !ours/|PoolsTest"
  "run: a lease that was not kept is given back for ever|$main/run/Pool.java|s/case LEASE_LOST -> Outcome\.retry\([^)]*\)/case LEASE_LOST -> new Outcome.Release()/|PoolsTest"
  "run: begun after its lease|$main/run/Running.java|s/if \(leaseOver\(\)\) \{\n[^\n]+\n\s+\}\n//|PoolsTest"
  "run: never begun counts as a timeout|$main/run/Watch.java|s/if \(attempt\.neverBegins\(\)\)/if (attempt.neverBegins() \&\& attempt.leaseOver())/|PoolsTest"
  "run: a broken listener costs the slot|$main/run/Running.java|s/\} finally \{\n(\s+end\(TOLD\);)\s+\}/\$1 } catch (IllegalStateException e) { throw e; }/|PoolsTest"
)

# asked <name> <words...>: no words ask for all.
asked() {
  local name=$1 word
  shift
  [ $# -gt 0 ] || return 0
  for word in "$@"; do
    [[ $name != *"$word"* ]] || return 0
  done
  return 1
}

cp -r pom.xml mvnw .mvn src "$scratch"
cp -r src "$scratch/unbroken"
cd "$scratch"
# The compiler's checks are not what is tested here; without them it is much quicker.
sed -i '/Xplugin:ErrorProne/d; /<arg>-Werror/d; /should-stop/d; /compilePolicy/d' pom.xml
perl -0pi -e 's/<annotationProcessorPaths>.*?<\/annotationProcessorPaths>//s' pom.xml
printf '# Mutation check\n\nWritten by `src/test/mutation/run.sh`: each guard of the engine was broken alone, and the tests named beside it were run.\nNot in the table because it changes nothing: MATERIALIZED, since PostgreSQL never inlines a CTE\nthat locks rows; and the lock under which the tally is folded, without which folders wait for each other but sum up exactly.\n\n'
printf '| broken | tests | red |\n|---|---|---|\n'
survived=0
for mutation in "${mutations[@]}"; do
  IFS='|' read -r name file change tests <<<"$mutation"
  asked "$name" "$@" || continue
  perl -0pi -e "$change" "$file"
  if cmp -s "$file" "unbroken/${file#src/}"; then
    result="**not applied**"
    survived=1
  elif ./mvnw -q test -Dspotless.check.skip=true -Dsurefire.failIfNoSpecifiedTests=false -Dwaybill.test.operations=1000 -Dtest="$tests" </dev/null >mutation.log 2>&1; then
    result="**none**"
    survived=1
  else
    result=$(sed -nE 's/^\[ERROR\] [a-z.]+\.([A-Z][A-Za-z]+\.[a-z_A-Z0-9]+).* -- Time elapsed.*/`\1`/p' mutation.log | sort -u | head -3 | paste -sd' ')
    [ -n "$result" ] || { result="**did not build**"; survived=1; cp mutation.log /tmp/mutation-failed.log; }
  fi
  echo "| $name | ${tests//,/, } | $result |"
  cp "unbroken/${file#src/}" "$file"
done
exit $survived
