#!/bin/sh
# May this change ship? Runs an agent on a suite and holds it against the stored baseline. For any CI: plain sh.
#
#   SUITE=suite AGENT=agent.py:solve sh gate.sh
#
# Without a baseline, or with UPDATE=true, it records one (K attempts per task) and exits 0, or 2 where a provider refused
# calls: that is none; with RECORD=false, for
# changes under review, a lack of one is undecided. Else it buys attempts until the verdict stands, and exits 0 for a
# pass, 1 for a regression and 2 for undecided (0 with ALLOW_UNDECIDED=true).
# In OUT it leaves gate.md (a comment for a pull request), gate.xml (JUnit), gate.json and report.html.
# Keep HOME_DIR/runs/BASELINE between jobs: in a cache, or on a branch (see baseline_branch.sh).
set -eu

: "${SUITE:?name the suite: a folder or a file}" "${AGENT:?name the agent, e.g. agent.py:solve}"
BASELINE=${BASELINE:-baseline} CANDIDATE=${CANDIDATE:-candidate-$(date -u +%Y%m%d-%H%M%S)-$$}
K=${K:-20} MARGIN=${MARGIN:-0.05} MAX_USD=${MAX_USD:-} UPDATE=${UPDATE:-false} RECORD=${RECORD:-true} OUT=${OUT:-ethogram-gate}
ALLOW_UNDECIDED=${ALLOW_UNDECIDED:-false} ETHOGRAM=${ETHOGRAM:-ethogram}
export ETHOGRAM_HOME="${HOME_DIR:-${ETHOGRAM_HOME:-.ethogram}}"
mkdir -p "$OUT"

output() { # a value for later steps, where GitHub asks for them
    if [ -n "${GITHUB_OUTPUT:-}" ]; then printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; fi
}

say() { # a comment without a verdict of the gate
    printf '### Ethogram: %s\n\n%s\n' "$1" "$2" | tee "$OUT/gate.md"
    if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$OUT/gate.md" >>"$GITHUB_STEP_SUMMARY"; fi
}

undecided() { # the exit code that was asked for
    if [ "$ALLOW_UNDECIDED" = true ]; then exit 0; fi
    exit 2
}

if [ "$UPDATE" = true ] || [ ! -f "$ETHOGRAM_HOME/runs/$BASELINE/run.json" ]; then
    if [ "$UPDATE" != true ] && [ "$RECORD" != true ]; then
        say "undecided" "There is no baseline \`$BASELINE\` yet: record one from the main branch with UPDATE=true."
        output verdict undecided
        undecided
    fi
    place="$ETHOGRAM_HOME/runs/$BASELINE" before="$ETHOGRAM_HOME/$BASELINE.before" code=0
    rm -rf "$before"
    if [ -f "$place/run.json" ]; then mv "$place" "$before"; fi
    told=$($ETHOGRAM run "$SUITE" --agent "$AGENT" -k "$K" --run "$BASELINE" ${MAX_USD:+--max-usd "$MAX_USD"}) || code=$?
    printf '%s\n' "$told"
    counts=$(printf '%s\n' "$told" | head -n 1)
    refused=$(printf '%s\n' "$told" | grep "^the provider" | head -n 1 || true)
    if [ "$code" != 0 ] || [ -n "$refused" ]; then # nothing can be held against a run without scores: the baseline before it stays
        rm -rf "$place"
        if [ -d "$before" ]; then mv "$before" "$place"; fi
        say "no baseline recorded" "$counts${refused:+. It is undecided: $refused.}"
        if [ -n "$refused" ]; then
            output verdict undecided
            undecided
        fi
        exit "$code"
    fi
    rm -rf "$before"
    say "baseline recorded" "$counts"
    output verdict recorded
    exit 0
fi

code=0
$ETHOGRAM gate "$BASELINE" "$CANDIDATE" --buy --suite "$SUITE" --agent "$AGENT" --margin "$MARGIN" \
    ${MAX_USD:+--max-usd "$MAX_USD"} ${GITHUB_ACTIONS:+--github} --json \
    --markdown "$OUT/gate.md" --junit "$OUT/gate.xml" >"$OUT/gate.json" || code=$?
case $code in
0) verdict=pass ;;
1) verdict=regression ;;
2) verdict=undecided ;;
*) # bad input or an interruption: the sentence stands above
    cat "$OUT/gate.json"
    exit "$code"
    ;;
esac
output verdict "$verdict"
cat "$OUT/gate.md"
$ETHOGRAM report "$BASELINE" "$CANDIDATE" --out "$OUT/report.html" >/dev/null
if [ "$verdict" = undecided ]; then undecided; fi
exit "$code"
