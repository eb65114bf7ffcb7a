#!/usr/bin/env bash
#SBATCH --job-name=steelyard
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --output=%x-%j.out
#
# Run Steelyard on the nodes of a SLURM job: Ray starts on every node, the command runs on the first node, and Ray
# stops when the command ends.
#   sbatch deploy/slurm.sh RECIPE|FILE [--section.key value …]
#   sbatch --nodes=4 deploy/slurm.sh --resume runs/NAME
# STEELYARD_ENV names a virtualenv to activate. Every node needs access to it and to the working directory with runs/.
set -euo pipefail

if [ $# -eq 0 ]; then
    echo "usage: sbatch deploy/slurm.sh RECIPE|FILE [--section.key value ...]" >&2
    exit 2
fi
if [ -n "${STEELYARD_ENV:-}" ]; then
    # shellcheck disable=SC1091
    source "$STEELYARD_ENV/bin/activate"
fi

# This cluster accepts only connections with the token, which is created for this job and readable by its owner alone.
umask 077
own=$(mktemp -d "$PWD/.steelyard-${SLURM_JOB_ID}-XXXXXX")
trap 'rm -rf "$own"' EXIT
python3 -c 'import secrets; print(secrets.token_hex(32), end="")' >"$own/token"
umask 022
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$own/token"

read -r head < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address="$head:$((20000 + SLURM_JOB_ID % 20000))"

# SLURM sends TERM to this script, which runs on the same node as the run, 300 s before the time limit. The script
# forwards the signal, and the run finishes its step and saves a checkpoint.
trap 'if [ -s "$own/pid" ]; then kill -TERM "$(cat "$own/pid")"; fi' TERM

# shellcheck disable=SC2016 # the quoted command is expanded by the shell that becomes the run
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --kill-on-bad-exit=1 \
    ray symmetric-run --address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
    bash -c 'echo $$ >"$0" && exec steelyard train "$@"' "$own/pid" "$@" --cluster.address auto &
step=$!
status=0
wait "$step" || status=$?
while kill -0 "$step" 2>/dev/null; do # the signal interrupts wait, not the step
    status=0
    wait "$step" || status=$?
done
if [ "$status" = 0 ] && [ ! -s "$own/pid" ]; then # symmetric-run exits with 0 even if Ray did not start
    echo "Ray did not start; see the messages above" >&2
    status=1
fi
exit "$status"
