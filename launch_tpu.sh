#!/usr/bin/env bash
# Starts training on several processes: here, on a TPU slice, or on GKE.
#
#   ./launch_tpu.sh COMMAND --backend=BACKEND [--option=value ...] [-- FLAGS OF TRAIN]
#   ./launch_tpu.sh run --backend=local --processes=2 -- --config=configs/maze_tiny.py
#
# Backends: local    processes on this machine, each with fake CPU devices
#           tpu-vm   a TPU slice, created directly
#           queued   a TPU slice, created by a queued resource
#           xpk      a JobSet on a GKE cluster that xpk made; TPU7x has only this
#
# Commands: create   make the slice or the cluster; it costs from here on
#           setup    install Python and JAX on every worker (xpk: kubectl's access)
#           sync     send the code to every worker, as one archive with its digest
#           run      start training on all workers, follow worker 0, return its status
#           logs     follow a worker again
#           status   what is there, and what runs
#           stop     save on all workers, and end
#           delete   give the slice or the cluster back; it costs nothing from here on
#           loop     run again after a preemption or a failure; make a lost slice anew
#           The local backend has run, logs, status, stop and loop.
#
# Of every backend:
#   --name=NAME            of the slice, the workload and the folder of logs [passk]
#   --logs=DIR             one log a worker [runs/launch/NAME]
#   --dry-run              print the commands, quoted for a shell, and start nothing
#   --worker=N             of logs [0]
# local:
#   --processes=N          [1]
#   --devices-per-process=N  fake devices [4]; 'all': the real ones, of one process
#   --port=N               of the coordinator [a free one]
#   --python=PATH          interpreter [.venv/bin/python, else python3]
# tpu-vm, queued, xpk:
#   --zone=ZONE --type=TYPE  for example us-central1-a and v5litepod-16
#   --project=PROJECT      [gcloud's own]
#   --spot                 may be preempted, costs less
#   --processes=N --chips=N  that must be there [what TYPE has]
#   --env-file=FILE        lines NAME=value for the workers: tokens belong there
# tpu-vm, queued:
#   --runtime=VERSION      software of the TPU [that of TYPE]
#   --nfs=HOST:/SHARE      that setup mounts at /mnt/runs, for the workdir
# xpk:
#   --cluster=NAME         [NAME of --name]
#   --slices=N             [1]
#   --image=IMAGE          with Python 3.11 or newer [python:3.12]
#   --storage=NAME         that xpk mounts, for the workdir: run and loop need it
# loop:
#   --max-preemptions=N [1000] --max-failures=N [3] --max-restarts=N [1000, of both]
#   --backoff=SECONDS      before the first restart, doubled up to 300 [10]
#
# Exit status: 0 finished; 2 the command line is wrong, here or train's; 42 preempted and
# saved; otherwise that of the first worker that failed, 128 + n if signal n ended it.
# Commands are functions that main finds by name.
# shellcheck disable=SC2317,SC2329
set -euo pipefail

readonly PREEMPTED=42 USAGE=2 UNREACHABLE=255
readonly BACKENDS='local tpu-vm queued xpk'
readonly COMMANDS='create setup sync run logs status stop delete loop'
readonly END_SECONDS=${LAUNCH_END_SECONDS:-10} POLL_SECONDS=${LAUNCH_POLL_SECONDS:-10}
# A connection that lasted as long was there.
readonly HELD_SECONDS=${LAUNCH_HELD_SECONDS:-60}
# On a worker, below its home.
readonly PLACE=passk_jax

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
declare -A given=()
train=()

# Which backends take an option; a command refuses the others.
declare -rA OPTIONS=(
  [backend]=$BACKENDS [name]=$BACKENDS [logs]=$BACKENDS [dry-run]=$BACKENDS
  [worker]=$BACKENDS [processes]=$BACKENDS
  [devices-per-process]=local [port]=local [python]=local
  [zone]='tpu-vm queued xpk' [project]='tpu-vm queued xpk' [type]='tpu-vm queued xpk'
  [spot]='tpu-vm queued xpk' [chips]='tpu-vm queued xpk' [env-file]='tpu-vm queued xpk'
  [runtime]='tpu-vm queued' [nfs]='tpu-vm queued'
  [cluster]=xpk [slices]=xpk [image]=xpk [storage]=xpk
  [max-preemptions]=$BACKENDS [max-failures]=$BACKENDS [max-restarts]=$BACKENDS
  [backoff]=$BACKENDS
)

say() { printf 'launch_tpu: %s\n' "$*" >&2; }

refuse() {
  say "error: $*"
  exit "$USAGE"
}

fail() {
  say "error: $1"
  exit "${2:-1}"
}

usage() { sed -n '2,/^# Commands are/{/^# Commands are/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

has_word() { [[ $2 && $2 != *[[:space:]]* && " $1 " == *" $2 "* ]]; }

option() { printf '%s' "${given[$1]:-${2:-}}"; }

# The words of its arguments as one line that a shell reads back.
quoted() {
  local line
  printf -v line '%q ' "$@"
  printf '%s' "${line% }"
}

# Runs a command; with --dry-run, prints it instead.
call() {
  if [[ -v given[dry-run] ]]; then
    printf '%s\n' "$(quoted "$@")"
  else
    say "+ $(quoted "$@")"
    "$@"
  fi
}

# ---------------------------------------------------------------- the command line

parse() {
  local argument name
  while (($#)); do
    argument=$1
    shift
    case $argument in
      --) train=("$@") && return ;;
      -h | --help) usage && exit ;;
      --dry-run | --spot) name=${argument#--} && given[$name]=yes ;;
      --*=*)
        name=${argument%%=*} && name=${name#--}
        is_option "$name" || refuse_option "$argument"
        has_word 'dry-run spot' "$name" && refuse "--$name takes no value"
        [[ -v given[$name] ]] && refuse "--$name is given twice"
        [[ ${argument#*=} ]] || refuse "--$name= is empty; leave it out for its default"
        given[$name]=${argument#*=}
        ;;
      --*) refuse_option "$argument" ;;
      *) refuse "$(quoted "$argument") is no option; flags of train come after --" ;;
    esac
  done
}

# Bash would run a subscript such as $(this).
is_option() { [[ $1 =~ ^[a-z-]+$ && -v OPTIONS[$1] ]]; }

refuse_option() {
  ! is_option "${1#--}" || refuse "$1 needs a value: $1=..."
  refuse "unknown option $(quoted "$1"); see --help, flags of train come after --"
}

check_pattern() { # OPTION PATTERN EXAMPLE
  [[ ! -v given[$1] || ${given[$1]} =~ ^$2$ ]] ||
    refuse "--$1=$(quoted "${given[$1]}") must be $3"
}

# Everything that can be known to be wrong before anything is started.
check_options() { # COMMAND
  local command=$1 name
  local backend=${given[backend]:-}
  [[ $backend ]] || refuse "--backend is required: one of $BACKENDS"
  has_word "$BACKENDS" "$backend" ||
    refuse "--backend=$(quoted "$backend") must be one of $BACKENDS"
  if [[ $backend == local ]] && has_word 'create setup sync delete' "$command"; then
    refuse "the local backend has no $command; it has run, logs, status, stop and loop"
  fi
  for name in "${!given[@]}"; do
    has_word "${OPTIONS[$name]}" "$backend" ||
      refuse "--$name is of ${OPTIONS[$name]// /, }, not of $backend"
    case $name in
      max-* | backoff) [[ $command == loop ]] || refuse "--$name is of loop only" ;;
      worker) [[ $command == logs ]] || refuse "--$name is of logs only" ;;
    esac
  done
  check_values
  [[ $backend == local ]] || check_slice "$command"
  if has_word 'run loop' "$command"; then
    check_train
  elif ((${#train[@]})); then
    refuse "$command takes nothing after --"
  fi
}

check_values() {
  local name resource='[a-z]([-a-z0-9]{0,38}[a-z0-9])?'
  for name in name cluster storage; do
    check_pattern "$name" "$resource" 'at most 40 of a-z, 0-9 and -, a letter first'
  done
  for name in processes chips slices; do
    check_pattern "$name" '[1-9][0-9]{0,5}' 'a whole number from 1'
  done
  for name in worker max-preemptions max-failures max-restarts backoff; do
    check_pattern "$name" '(0|[1-9][0-9]{0,5})' 'a whole number from 0'
  done
  check_pattern devices-per-process '([1-9][0-9]{0,3}|all)' "a whole number, or 'all'"
  check_pattern port '[1-9][0-9]{3,4}' 'a port from 1024 to 65535'
  local port=${given[port]:-1024}
  ((port >= 1024 && port <= 65535)) || refuse "--port=$port must be from 1024 to 65535"
  check_pattern zone '[a-z]+-[a-z]+[0-9]+-[a-z]' 'a zone, for example us-central1-a'
  check_pattern project '[a-z][-a-z0-9.:]*[a-z0-9]' "a project's id"
  check_pattern nfs '[a-z0-9][-a-z0-9.]*:/[-_a-zA-Z0-9./]+' 'HOST:/SHARE'
  check_pattern runtime '[a-z0-9][-a-z0-9.]*' 'a version, for example v2-alpha-tpuv6e'
  check_pattern image '[a-zA-Z0-9][-a-zA-Z0-9._/:@]*' 'the name of an image'
  check_pattern type '(v2|v3|v4|v5litepod|v5p|v6e|tpu7x)-[1-9][0-9]{0,4}(x[1-9][0-9]?)*' \
    'a slice, for example v5litepod-16 or v5p-64'
  if [[ $(option devices-per-process) == all && $(option processes 1) != 1 ]]; then
    refuse 'processes here cannot share real devices: --devices-per-process=all is of one'
  fi
  if [[ -v given[python] && ! -x $(type -P "${given[python]}" || true) ]]; then
    refuse "--python=$(quoted "${given[python]}") is no program"
  fi
  if [[ -v given[logs] && -e ${given[logs]} && ! -d ${given[logs]} ]]; then
    refuse "--logs=$(quoted "${given[logs]}") is no directory"
  fi
}

check_slice() { # COMMAND
  local name
  for name in zone type; do
    [[ -v given[$name] ]] || refuse "--$name is required by the backend ${given[backend]}"
  done
  if [[ ${given[backend]} != xpk && ${given[type]} == tpu7x* ]]; then
    refuse "--type=${given[type]} is only on GKE: --backend=xpk"
  fi
  if [[ ${given[backend]} != xpk && ${given[type]} == *x* ]]; then
    refuse "--type=${given[type]} names a topology, which only GKE takes: --backend=xpk"
  fi
  slice_size
  if [[ -v given[worker] ]] && ((given[worker] >= processes)); then
    refuse "--worker=${given[worker]} is none of $processes workers, counted from 0"
  fi
  if [[ -v given[env-file] ]]; then check_env_file "${given[env-file]}"; fi
  local program=gcloud
  if [[ ${given[backend]} == xpk ]]; then
    has_word 'logs status setup' "$1" || program=xpk
    has_word 'logs status' "$1" && program=kubectl
  fi
  [[ -v given[dry-run] ]] || type -P "$program" > /dev/null ||
    refuse "$program is not installed; --dry-run needs none"
}

check_env_file() {
  [[ -f $1 && -r $1 ]] || refuse "--env-file=$(quoted "$1") is no file to read"
  ! grep -qvE '^([A-Za-z_][A-Za-z0-9_]*=.*|[[:space:]]*|#.*)$' "$1" ||
    refuse "--env-file=$(quoted "$1") has a line that is not NAME=value"
}

# A secret in an argument is seen by every user of a machine, and kept in logs.
check_train() {
  local argument workdir=
  ((${#train[@]})) || refuse 'flags of train are missing: -- --config=FILE --workdir=DIR'
  for argument in "${train[@]}"; do
    [[ ${argument,,} =~ (^|[-._])(token|api_?key|password|secret)= ||
      $argument =~ (hf_[A-Za-z0-9]{20}|AIza[-_A-Za-z0-9]{30}|ghp_[A-Za-z0-9]{30}) ]] &&
      refuse "${argument%%=*} holds a secret: put it into the environment (--env-file)"
    case $argument in
      --hosts | --hosts=* | --expect | --expect=*)
        refuse "${argument%%=*} is set by the launcher, for each process its own" ;;
      --workdir=*) workdir=${argument#*=} ;;
      --workdir) refuse 'write --workdir=DIR' ;;
    esac
  done
  [[ " ${train[*]}" == *' --config='* ]] || refuse 'train needs --config=FILE'
  if [[ ${given[backend]} == xpk && ! -v given[storage] ]]; then
    refuse "--storage=NAME is required: what a container keeps on its own disk is lost"
  fi
  # What is below the code's folder on a worker is another folder after the next sync.
  if [[ ${given[backend]} != local && $workdir != /* ]]; then
    refuse "--workdir=$(quoted "$workdir") must be an absolute path that all workers see"
  fi
}

# How many processes and chips a slice has: sets processes and chips.
slice_size() {
  local kind=${given[type]%%-*} size=${given[type]#*-} hosts count
  count=$((${size//x/*}))
  if [[ $kind =~ ^(v2|v3|v4|v5p|tpu7x)$ && $size != *x* ]]; then
    # The name counts cores, two a chip.
    ((count % 2 == 0)) || refuse "--type=${given[type]} names an odd number of cores"
    count=$((count / 2))
  fi
  hosts=$(((count + 3) / 4))
  # GKE splits eight chips over two nodes.
  if [[ $count == 8 && $kind =~ ^(v5litepod|v6e)$ && ${given[backend]} != xpk ]]; then
    hosts=1
  fi
  local slices
  slices=$(option slices 1)
  processes=$(option processes "$((hosts * slices))")
  chips=$(option chips "$((count * slices))")
  ((chips && chips % processes == 0)) ||
    refuse "$chips chips do not divide over $processes processes"
}

# ---------------------------------------------------------------- code as an archive

# Writes the archive of what git tracks, as it is now, with its revision and changes.
pack() { # FILE
  local about diff dirty=false revision digest=null
  revision=$(git -C "$ROOT" rev-parse HEAD) || fail "$ROOT is no checkout of git"
  about=$(mktemp -d)
  git -C "$ROOT" diff --binary --no-ext-diff --no-color HEAD > "$about/git.diff"
  [[ -z $(git -C "$ROOT" status --porcelain) ]] || dirty=true
  diff=$(sha256sum < "$about/git.diff")
  [[ ! -s $about/git.diff ]] || digest="\"${diff%% *}\""
  printf '{"revision": "%s", "dirty": %s, "diff_sha256": %s}\n' \
    "$revision" "$dirty" "$digest" > "$about/git.json"
  # The same bytes from the same code, so that a digest names it.
  (cd "$ROOT" && export LC_ALL=C &&
    comm -z -23 <(git ls-files -z | sort -z) <(git ls-files -z --deleted | sort -z)) |
    tar --create --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX \
      --directory="$about" git.json git.diff \
      --directory="$ROOT" --null --verbatim-files-from --files-from=- |
    gzip --no-name > "$1"
  rm -r "$about"
}

# Sets archive and digest. The archive is local, also with --dry-run.
make_archive() {
  archive=$logs/code/code.tgz
  mkdir -p "$logs/code"
  pack "$archive"
  digest=$(sha256sum < "$archive")
  digest=${digest%% *}
  local untracked
  untracked=$(git -C "$ROOT" ls-files --others --exclude-standard | wc -l)
  ((untracked == 0)) || say "$untracked files that git does not track stay here"
}

# The command line that checks and unpacks the archive on a worker. What runs keeps the
# folder that it began in.
unpack_line() { # ARCHIVE FOLDER
  local folder=$2-${digest:0:12}
  printf '%s' "echo '$digest  $1' | sha256sum --check --quiet && mkdir -p $folder &&" \
    " tar -xzf $1 -C $folder && ln -sfn ${folder##*/} $2"
}

# ---------------------------------------------------------------- several processes

# Starts a process for each worker, follows worker 0, ends all if one fails.
#   worker_command INDEX sets the array command; end_workers SIGNAL ends them all.
supervise() { # COUNT
  local count=$1 index process status failed=0 preempted=0 follower command
  declare -gA pids=() # index by process
  signalled='' ender=''
  trap 'pass_on TERM' TERM INT
  # A run on a slice goes on without its terminal.
  [[ $slice_backend ]] || trap 'pass_on TERM' HUP
  # Each process in a group of its own: Ctrl-C reaches this script only.
  set -m
  for ((index = 0; index < count; index++)); do
    worker_command "$index"
    # The follower may be faster than the process, and gives up where there is no file.
    : > "$logs/worker-$index.log"
    "${command[@]}" > "$logs/worker-$index.log" 2>&1 < /dev/null &
    pids[$!]=$index
    ((index)) || process=$!
  done
  set +m
  tail -n +1 -s 0.1 --follow=name --pid="$process" "$logs/worker-0.log" 2> /dev/null |
    sed -u 's/^/[0] /' &
  follower=$!
  while ((${#pids[@]})); do
    sleep 0.2
    for process in "${!pids[@]}"; do
      ! kill -0 "$process" 2> /dev/null || continue
      status=0
      { wait "$process"; } 2> /dev/null || status=$?
      index=${pids[$process]}
      unset "pids[$process]"
      if ((status == PREEMPTED)); then
        preempted=$PREEMPTED
      elif ((status && !failed)); then
        failed=$status
        report "$index" "$status"
        end_soon
      fi
    done
  done
  [[ ! $ender ]] || kill "$ender" 2> /dev/null || true
  wait "$follower" || true
  trap - TERM INT HUP
  return $((failed ? failed : preempted))
}

# Passes a signal on; the second one ends all at once.
pass_on() { # SIGNAL
  if [[ $signalled ]]; then
    say 'a second signal: ending all workers at once'
    end_workers KILL
  else
    say "passing SIG$1 on to all workers; they save and stop; repeat to end at once"
    signalled=yes
    end_workers "$1"
  fi
}

report() { # INDEX STATUS
  local how="exited with $2"
  if (($2 == UNREACHABLE)); then
    how='is out of reach'
  elif (($2 > 128)); then
    how="was ended by SIG$(kill -l "$2" 2> /dev/null || echo "NAL $(($2 - 128))")"
  fi
  say "worker $1 $how; the others end within $END_SECONDS s. The end of its log:"
  tail -n 20 "$logs/worker-$1.log" | sed "s/^/[$1] /" >&2
}

# The others may say more; one that waits for a lost peer is ended.
end_soon() {
  (sleep "$END_SECONDS" && end_workers KILL) > /dev/null 2>&1 &
  ender=$!
}

# ---------------------------------------------------------------- local

local_worker_command() { # INDEX
  local devices python
  devices=$(option devices-per-process 4)
  python=$(option python "$([[ -x $ROOT/.venv/bin/python ]] &&
    echo "$ROOT/.venv/bin/python" || echo python3)")
  command=(env)
  if [[ $devices != all ]]; then
    command+=(JAX_PLATFORMS=cpu "JAX_NUM_CPU_DEVICES=$devices")
  fi
  if ((processes > 1)); then
    # On CPUs only process 0 finds its programs there, and does not wait long enough
    # in a collective for those that compile.
    command+=(JAX_ENABLE_COMPILATION_CACHE=false)
  fi
  command+=("$python" -m passk_jax.train)
  ((processes == 1)) || command+=("--hosts=localhost:$port,$processes,$1")
  [[ $devices == all ]] || command+=("--expect=$processes,$((processes * devices))")
  command+=("${train[@]}")
}

end_local() { # SIGNAL
  local process
  for process in "${!pids[@]}"; do
    if [[ $1 == KILL ]]; then
      # With what it has started, such as workers of a verifier.
      kill -KILL -- "-$process" 2> /dev/null || true
    else
      kill "-$1" "$process" 2> /dev/null || true
    fi
  done
}

free_port() {
  local candidate
  for candidate in $(shuf -i 20000-59999 -n 50); do
    if ! (: < "/dev/tcp/127.0.0.1/$candidate") 2> /dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
  fail 'no free port was found for the coordinator; name one: --port=N'
}

local_run() {
  processes=$(option processes 1)
  port=
  ((processes == 1)) || port=$(option port "$(free_port)")
  worker_command() { local_worker_command "$@"; }
  end_workers() { end_local "$@"; }
  local index command
  if [[ -v given[dry-run] ]]; then
    for ((index = 0; index < processes; index++)); do
      worker_command "$index"
      call "${command[@]}"
    done
    return
  fi
  claim
  cd "$ROOT"
  supervise "$processes"
}

# One launcher a name: the other would overwrite its logs.
claim() {
  if [[ ! -v LAUNCH_LOOP ]]; then
    local holder
    holder=$(launcher)
    [[ -z $holder || $holder == "$$" ]] ||
      refuse "process $holder runs here as $(option name passk); stop it"
    { echo $$; command_of $$; } > "$logs/launcher.pid"
  fi
}

# The process that runs under this name, if any. After a restart, another process may
# have its number.
launcher() {
  local holder line
  { read -r holder && line=$(cat); } 2> /dev/null < "$logs/launcher.pid" || return 0
  # Earlier versions wrote the number alone.
  if [[ $line ]]; then
    [[ $(command_of "$holder") == "$line" ]] || return 0
  else
    [[ $(command_of "$holder") == *launch_tpu.sh* ]] || return 0
  fi
  printf '%s' "$holder"
}

# The command line of a process, nothing if it has ended. A small image of Linux has no
# ps, and macOS no /proc.
command_of() {
  { tr '\0' ' ' < "/proc/$1/cmdline" || ps -ww -o args= -p "$1"; } 2> /dev/null || true
}

local_logs() {
  local holder follow=() log
  log=$logs/worker-$(option worker 0).log
  [[ -e $log || -v given[dry-run] ]] || fail "there is no $log"
  holder=$(launcher)
  [[ ! $holder ]] || follow=(--follow=name --pid="$holder")
  call tail -n +1 "${follow[@]}" "$log"
}

local_status() {
  local holder
  holder=$(launcher)
  echo "${holder:+running as process }${holder:-not running}"
  tail -n 1 "$logs"/worker-*.log 2> /dev/null || true
}

local_stop() {
  local holder
  holder=$(launcher)
  [[ $holder || -v given[dry-run] ]] || fail "nothing runs here as $(option name passk)"
  call kill -TERM "${holder:-PID}"
}

# ---------------------------------------------------------------- a TPU slice by ssh

tpus() { call gcloud compute tpus "$@" "${at[@]}"; }

on_worker() { # WORKER LINE
  tpus tpu-vm ssh "$slice" --worker="$1" --command="$2"
}

remote() { quoted "$PLACE/code/launch_tpu.sh" worker "$@"; }

runtime_of() {
  case $1 in
    v5litepod*) echo v2-alpha-tpuv5-lite ;;
    v5p*) echo v2-alpha-tpuv5 ;;
    v6e*) echo v2-alpha-tpuv6e ;;
    *) echo tpu-ubuntu2204-base ;;
  esac
}

ssh_create() {
  local runtime kind=(--accelerator-type="${given[type]}") made=0
  runtime=$(option runtime "$(runtime_of "${given[type]}")")
  [[ ! -v given[spot] ]] || kind+=(--spot)
  if [[ ${given[backend]} == queued ]]; then
    tpus queued-resources create "$slice" --node-id="$slice" \
      --runtime-version="$runtime" "${kind[@]}" || made=$?
  else
    tpus tpu-vm create "$slice" --version="$runtime" "${kind[@]}" || made=$?
  fi
  if ((made)); then
    local state
    state=$(slice_state)
    [[ $state == ABSENT ]] || say "$slice is there, in state $state, and may cost: delete it"
    fail 'create failed' "$made"
  fi
  wait_ready
}

slice_state() {
  local format='value(state)' what=tpu-vm
  if [[ ${given[backend]} == queued ]]; then
    format='value(state.state)' what=queued-resources
  fi
  tpus "$what" describe "$slice" --format="$format" 2> /dev/null || echo ABSENT
}

wait_ready() {
  local state last=
  if [[ -v given[dry-run] ]]; then
    slice_state
    return
  fi
  while true; do
    state=$(slice_state)
    [[ $state == "$last" ]] || say "$slice is $state"
    last=$state
    case $state in
      READY | ACTIVE) return ;;
      ABSENT | FAILED | PREEMPTED | TERMINATED | SUSPEND* | DELETING)
        fail "$slice is $state, not ready: delete it" ;;
    esac
    sleep "$POLL_SECONDS"
  done
}

# The command line that sets up Python and JAX below the home of a worker, and mounts.
setup_line() { # REQUIREMENTS [HOST:/SHARE]
  printf '%s' "python3 -m pip install --quiet --user uv &&" \
    " python3 -m uv venv --quiet --allow-existing --python 3.12 $PLACE/venv &&" \
    " python3 -m uv pip install --quiet --python $PLACE/venv/bin/python" \
    " -r $(quoted "$1") 'jax[tpu]'"
  [[ ! ${2:-} ]] || printf '%s' \
    " && sudo apt-get install --quiet --yes nfs-common && sudo mkdir -p /mnt/runs &&" \
    " { mountpoint --quiet /mnt/runs || sudo mount -t nfs $2 /mnt/runs; } &&" \
    " sudo chmod a+rwx /mnt/runs"
}

ssh_setup() {
  tpus tpu-vm scp "$ROOT/requirements.txt" "$slice:passk_requirements.txt" --worker=all
  on_worker all "$(setup_line passk_requirements.txt "$(option nfs)")"
}

ssh_sync() {
  make_archive
  tpus tpu-vm scp "$archive" "$slice:passk_code.tgz" --worker=all
  on_worker all "$(unpack_line passk_code.tgz "$PLACE/code")"
}

ssh_worker_command() { # INDEX
  # A broken connection is no broken run: follow again.
  command=(follow_worker "$1")
}

follow_worker() { # INDEX
  local try status began
  for ((try = 0; try < 5; try++)); do
    status=0 began=$SECONDS
    on_worker "$1" "$(remote follow)" || status=$?
    ((status == UNREACHABLE)) || return "$status"
    # Those of a run of days may break more often.
    ((SECONDS - began < HELD_SECONDS)) || try=0
    sleep $((POLL_SECONDS << try))
  done
  return "$UNREACHABLE"
}

ssh_end() { # SIGNAL
  on_worker all "$(remote stop "$1")" || say 'not every worker was reached'
  [[ $1 != KILL ]] || end_local KILL
}

ssh_run() {
  local flags=(--expect="$processes,$chips") index
  ((processes == 1)) || flags+=(--hosts=auto)
  [[ -v given[dry-run] ]] || claim
  if [[ -v given[env-file] ]]; then
    tpus tpu-vm scp "${given[env-file]}" "$slice:$PLACE/env" --worker=all
  fi
  on_worker all "$(remote start "${flags[@]}" "${train[@]}")"
  worker_command() { ssh_worker_command "$@"; }
  end_workers() { ssh_end "$@"; }
  if [[ -v given[dry-run] ]]; then
    for ((index = 0; index < processes; index++)); do
      on_worker "$index" "$(remote follow)"
    done
    return
  fi
  supervise "$processes"
}

ssh_logs() { on_worker "$(option worker 0)" "$(remote follow)"; }

ssh_status() {
  slice_state
  on_worker all "$(remote status)"
}

ssh_stop() { on_worker all "$(remote stop TERM)"; }

ssh_delete() {
  if [[ ${given[backend]} == queued ]]; then
    tpus queued-resources delete "$slice" --force --quiet
  else
    tpus tpu-vm delete "$slice" --quiet
  fi
}

# ---------------------------------------------------------------- on a worker of a slice

worker_main() { # VERB ARGUMENT ...
  mkdir -p "$HOME/$PLACE"
  cd "$HOME/$PLACE"
  trainer=("$HOME/$PLACE/venv/bin/python" -m passk_jax.train)
  "worker_$1" "${@:2}"
}

# What sky.yaml calls, which sends the code and follows the run by itself.
worker_setup() { # [HOST:/SHARE]
  [[ ! ${1:-} ]] || { given[nfs]=$1 && check_values; }
  (cd "$HOME" && bash -c "$(setup_line "$ROOT/requirements.txt" "${1:-}")")
}

worker_run() { # FLAGS OF TRAIN
  cd "$ROOT"
  exec "${trainer[@]}" "$@"
}

worker_pid() { cat run.pid 2> /dev/null || true; }

worker_runs() {
  local pid
  pid=$(worker_pid)
  [[ $pid ]] && kill -0 -- "-$pid" 2> /dev/null
}

worker_start() { # FLAGS OF TRAIN
  local line pid
  ! worker_runs || fail "a run is going on here: stop it first" 3
  if [[ -f env ]]; then
    chmod 600 env
    while IFS= read -r line || [[ $line ]]; do
      [[ $line != [A-Za-z_]*=* ]] || export "${line?}"
    done < ./env
  fi
  rm -f run.status
  [[ ! -e run.log ]] || mv run.log run.log.old
  : > run.log
  cd code
  # The shell outlives a signal to its group, so that it can say how training ended.
  # shellcheck disable=SC2016
  setsid bash -c 'trap : TERM; "$@"; echo $? > ../run.status' - \
    "${trainer[@]}" "$@" > ../run.log 2>&1 < /dev/null &
  pid=$!
  echo "$pid" > ../run.pid
  # Nobody can stop it before setsid has made its group.
  while kill -0 "$pid" && ! kill -0 -- "-$pid"; do sleep 0.1; done 2> /dev/null
}

worker_follow() {
  local pid
  pid=$(worker_pid)
  [[ $pid ]] || fail 'nothing was started here'
  tail -n +1 -s 0.1 --follow=name --pid="$pid" run.log
  # Killed with its shell.
  [[ -e run.status ]] || return 137
  return "$(cat run.status)"
}

worker_status() {
  if worker_runs; then
    echo "$(hostname): running"
  else
    echo "$(hostname): not running; the last run ended with $(cat run.status 2> /dev/null ||
      echo nothing)"
  fi
  tail -n 1 run.log 2> /dev/null || true
}

worker_stop() { # SIGNAL
  local patience=100
  ! worker_runs || kill "-$1" -- "-$(worker_pid)"
  # The next run begins only when nothing of this one is left.
  while [[ $1 == KILL ]] && worker_runs && ((patience--)); do sleep 0.1; done
}

# ---------------------------------------------------------------- GKE

xpk_call() { call xpk "$@" "--cluster=$cluster" "${at[@]}"; }

pods() { # [WORKER]
  printf 'jobset.sigs.k8s.io/jobset-name=%s' "$slice"
  if [[ ${1:-} ]]; then
    local each=$((processes / $(option slices 1)))
    printf ',jobset.sigs.k8s.io/job-index=%s' $(($1 / each))
    printf ',batch.kubernetes.io/job-completion-index=%s' $(($1 % each))
  fi
}

xpk_create() {
  local kind=(--tpu-type="${given[type]}" --num-slices="$(option slices 1)")
  kind+=("--$([[ -v given[spot] ]] && echo spot || echo on-demand)")
  xpk_call cluster create "${kind[@]}" ||
    fail 'create failed; what was made may cost: repeat create, or delete it' $?
}

xpk_setup() {
  call gcloud container clusters get-credentials "$cluster" \
    --location="${given[zone]%-*}" "${project[@]}"
}

xpk_sync() {
  make_archive
  say "run builds the image with $archive"
}

xpk_run() {
  make_archive
  local line image restarts=${LAUNCH_RESTARTS:-0} options=(--storage="${given[storage]}")
  image=$(option image python:3.12)
  line="$(unpack_line code.tgz code) && cd code && python -m pip install --quiet\
 -r requirements.txt 'jax[tpu]' && exec $(quoted python -m passk_jax.train \
    --hosts=auto "--expect=$processes,$chips" "${train[@]}")"
  # In a container's command Kubernetes makes one dollar of two.
  line=${line//'$'/'$$'}
  [[ ! -v given[env-file] ]] || options+=(--env-file="${given[env-file]}")
  # Otherwise a chip of two cores is two processes.
  [[ ${given[type]} != tpu7x* ]] || options+=(--no-use-parallel-containers)
  [[ -v given[dry-run] ]] || claim
  xpk_call workload create --workload="$slice" --tpu-type="${given[type]}" \
    --num-slices="$(option slices 1)" --base-docker-image="$image" \
    --script-dir="$logs/code" --max-restarts="$restarts" \
    --termination-grace-period-seconds=600 "${options[@]}" --command="$line"
  xpk_follow
}

xpk_follow() {
  signalled=
  trap 'signalled=yes; xpk_stop' TERM INT HUP
  while true; do
    xpk_logs
    [[ ! -v given[dry-run] ]] || return 0
    case $(call kubectl get jobset "$slice" \
      --output='jsonpath={.status.terminalState}') in
      Completed) return 0 ;;
      Failed) xpk_failure || return $? ;;
    esac
    [[ ! $signalled ]] || return "$PREEMPTED"
    sleep "$POLL_SECONDS"
  done
}

xpk_failure() {
  local code worst=$PREEMPTED
  for code in $(call kubectl get pods --selector="$(pods)" --output=jsonpath='{.items[*].status.containerStatuses[*].state.terminated.exitCode}'); do
    # The JobSet ends the others when one fails, or they end because it is gone: 43.
    has_word '0 42 43 137 143' "$code" || worst=$code
  done
  say "the JobSet failed; worst exit status $worst"
  return "$worst"
}

xpk_logs() {
  local selector
  selector=$(pods "$(option worker 0)")
  call kubectl logs --follow --tail=-1 --pod-running-timeout=24h --selector="$selector" |
    tee -a "$logs/worker-$(option worker 0).log"
}

xpk_status() {
  call kubectl get jobset "$slice"
  call kubectl get pods --selector="$(pods)" --output=wide
}

xpk_stop() { xpk_call workload delete --workload="$slice" --force; }

xpk_delete() { xpk_call cluster delete --force; }

# ---------------------------------------------------------------- again and again

# Runs this script again, with the same options, as a process that can be signalled.
again() { # COMMAND [FLAGS OF TRAIN]
  local name options=() status=0
  for name in "${!given[@]}"; do
    case $name in
      max-* | backoff) ;;
      spot | dry-run) options+=("--$name") ;;
      *) options+=("--$name=${given[$name]}") ;;
    esac
  done
  [[ $1 != run ]] || options+=(-- "${train[@]}")
  set -m
  LAUNCH_LOOP=$$ "$ROOT/${BASH_SOURCE[0]##*/}" "$1" "${options[@]}" &
  child=$!
  set +m
  while kill -0 "$child" 2> /dev/null; do sleep 0.2; done
  wait "$child" || status=$?
  return "$status"
}

ready() { has_word 'READY ACTIVE' "$(slice_state)"; }

loop() {
  local preemptions=0 failures=0 status what wait_seconds
  stopping='' child=''
  if [[ -v given[dry-run] ]]; then
    again run
    return
  fi
  claim
  # A JobSet restarts by itself what was preempted.
  export LAUNCH_RESTARTS
  LAUNCH_RESTARTS=$(option max-preemptions 1000)
  trap 'stopping=yes; kill -TERM "$child" 2> /dev/null || true' TERM INT HUP
  while true; do
    status=0
    again run || status=$?
    ((status && status != USAGE)) || return "$status"
    [[ ! $stopping ]] || return "$status"
    what=failure
    ((status != PREEMPTED)) || what=preemption
    if [[ $slice_backend ]] && ! ready; then
      what=preemption
      remake || say 'it could not be made; that is tried again'
    fi
    [[ ${given[backend]} != xpk ]] || again stop || true
    [[ $what == failure ]] && failures=$((failures + 1))
    [[ $what == preemption ]] && preemptions=$((preemptions + 1))
    spent "$preemptions" "$failures" || return "$status"
    wait_seconds=$(backoff $((preemptions + failures)))
    say "a $what, exit status $status; in all $preemptions preemptions and $failures" \
      "failures; again in $wait_seconds s"
    for (( ; wait_seconds && !${#stopping}; wait_seconds--)); do sleep 1; done
    [[ ! $stopping ]] || return "$status"
  done
}

# Whether a budget is left.
spent() { # PREEMPTIONS FAILURES
  local budget
  budget=$(option max-failures 3)
  (($2 <= budget)) || { say "$2 failures: more than --max-failures=$budget" && return 1; }
  budget=$(option max-preemptions 1000)
  (($1 <= budget)) || { say "$1 preemptions: more than --max-preemptions=$budget" && return 1; }
  budget=$(option max-restarts 1000)
  (($1 + $2 <= budget)) || { say "no more than --max-restarts=$budget" && return 1; }
}

backoff() { # RESTARTS
  local seconds power=$(($1 - 1))
  seconds=$(($(option backoff 10) << (power > 8 ? 8 : power)))
  echo $((seconds > 300 ? 300 : seconds))
}

# A preempted slice does not come back: another takes its name.
remake() {
  say "$slice is $(slice_state): making it anew"
  again delete || true
  again create && again setup && again sync
}

# ---------------------------------------------------------------- main

main() {
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) || refuse 'needs bash 4.4 or newer'
  local verb=${1:-}
  case $verb in
    -h | --help | help) usage && exit ;;
    worker)
      worker_main "${@:2}"
      exit
      ;;
    '') refuse "a command is missing: one of $COMMANDS; see --help" ;;
  esac
  has_word "$COMMANDS" "$verb" ||
    refuse "$(quoted "$verb") must be one of $COMMANDS; see --help"
  parse "${@:2}"
  check_options "$verb"
  slice=$(option name passk)
  cluster=$(option cluster "$slice")
  logs=$(option logs "$ROOT/runs/launch/$slice")
  mkdir -p "$logs"
  logs=$(cd "$logs" && pwd)
  project=()
  [[ ! -v given[project] ]] || project=(--project="${given[project]}")
  at=(--zone="${given[zone]:-}" "${project[@]}")
  slice_backend=
  local family=${given[backend]}
  case $family in tpu-vm | queued) family=ssh slice_backend=$family ;; esac
  if [[ $verb == loop ]]; then
    loop
  else
    "${family}_$verb"
  fi
}

main "$@"
