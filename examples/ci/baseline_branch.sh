#!/bin/sh
# Keep the baseline on a branch of its own: `sh baseline_branch.sh restore` before gate.sh, `… store` after it recorded.
#
# The branch holds that one run and nothing else, one commit per baseline; the key of the redaction marks stays where it
# is. Texts are stored redacted, yet prompts and answers are in there: the branch is as private as the repository.
set -eu

BRANCH=${BRANCH:-ethogram-baseline} REMOTE=${REMOTE:-origin} BASELINE=${BASELINE:-baseline}
HOME_DIR=${HOME_DIR:-${ETHOGRAM_HOME:-.ethogram}}

case ${1:-} in
restore)
    if ! git ls-remote --exit-code --heads "$REMOTE" "$BRANCH" >/dev/null; then
        echo "there is no branch $BRANCH yet"
        exit 0
    fi
    git fetch --quiet --depth 1 "$REMOTE" "$BRANCH"
    mkdir -p "$HOME_DIR/runs"
    git archive FETCH_HEAD "$BASELINE" | tar -x -C "$HOME_DIR/runs"
    echo "restored $BASELINE from $BRANCH"
    ;;
store)
    index=$(mktemp -u)
    objects=$(git rev-parse --absolute-git-dir)
    # a commit of that folder alone, without touching the files or the index of this checkout
    tree=$(GIT_DIR=$objects GIT_WORK_TREE=$HOME_DIR/runs GIT_INDEX_FILE=$index sh -c \
        'git add --force -- "$0" && git write-tree' "$BASELINE")
    rm -f "$index"
    parent=$(git ls-remote --heads "$REMOTE" "$BRANCH" | cut -f1)
    if [ -n "$parent" ]; then git fetch --quiet --depth 1 "$REMOTE" "$BRANCH"; fi
    commit=$(git commit-tree "$tree" ${parent:+-p "$parent"} -m "Baseline of $(git rev-parse --short HEAD)")
    git push --quiet "$REMOTE" "$commit:refs/heads/$BRANCH"
    echo "stored $BASELINE on $BRANCH"
    ;;
*)
    echo "usage: baseline_branch.sh restore|store" >&2
    exit 64
    ;;
esac
