#!/bin/sh
# Calls skills through a bridge: a thin layer over `aibridge call` for people,
# IDEs and models that know skills and not commands. Needs only a POSIX shell.

set -eu

usage() {
	cat <<'END'
usage: mcp-agent.sh ACTION [SKILL_ID] [PARAMETERS]

  status                            the agents of the bridge and whether they are online
  list [TEXT]                       the skills, or those that TEXT is found in
  find SKILL_ID                     the skill, its capabilities and the agent that serves it
  document SKILL_ID [PATH]          its SKILL.md, or a file under its resources/
  execute SKILL_ID CAPABILITY [PARAMETERS]
                                    run a capability and wait for the result
  execute-async SKILL_ID CAPABILITY [PARAMETERS]
                                    run it and return a task_id at once
  result TASK_ID                    how far a task is, and its result
  cancel TASK_ID                    stop a task
  CAPABILITY SKILL_ID [PARAMETERS]  short for execute

PARAMETERS are one JSON object, '@file' or '-' to read one from a file or from
standard input, or words name=value.

  mcp-agent.sh celsius_to_fahrenheit unit-converter celsius=25
  mcp-agent.sh execute unit-converter convert_length '{"value": 1, "from": "mi"}'

Results are JSON on standard output. The exit status is that of aibridge:
0 done, 2 used wrongly, 10 to 50 by the first digit of the error code.

environment: AIBRIDGE_BIN      the program to run (default: aibridge, or bin/aibridge beside scripts/)
             AIBRIDGE_TIMEOUT  how long a call may take (default 30s)
             AIBRIDGE_URL, AIBRIDGE_API_KEY, AIBRIDGE_DATA  as for aibridge
END
}

misused() {
	printf 'mcp-agent.sh: %s\n' "$1" >&2
	usage >&2
	exit 2
}

# program prints the path of aibridge.
program() {
	beside=$(dirname -- "$0")/../bin/aibridge
	if [ -n "${AIBRIDGE_BIN:-}" ]; then
		printf '%s\n' "$AIBRIDGE_BIN"
	elif command -v aibridge; then
		:
	elif [ -x "$beside" ]; then
		printf '%s\n' "$beside"
	else
		echo 'mcp-agent.sh: aibridge is not installed; set AIBRIDGE_BIN' >&2
		return 1
	fi
}

# call COMMAND [WORD...] runs one command of the bridge.
call() {
	"$aibridge" call --json --timeout "${AIBRIDGE_TIMEOUT:-30s}" -- "$@"
}

# wrap passes the JSON object on standard input on as {"params": OBJECT}.
wrap() {
	printf '{"params":'
	cat
	printf '}'
}

# invoke SKILL_ID CAPABILITY ASYNC [PARAMETERS] runs a capability. ASYNC is
# empty to wait for the result.
invoke() {
	skill=$1 capability=$2 async=$3
	shift 3
	case ${1-} in
	'{'*)
		[ $# -eq 1 ] || misused 'a JSON object stands alone'
		call skill.invoke "skill_id=$skill" "capability_id=$capability" ${async:+async=true} "params=$1"
		;;
	-)
		[ $# -eq 1 ] || misused '- stands alone'
		wrap | call skill.invoke @- "skill_id=$skill" "capability_id=$capability" ${async:+async=true}
		;;
	@?*)
		[ $# -eq 1 ] || misused '@file stands alone'
		[ -r "${1#@}" ] || misused "${1#@} cannot be read"
		wrap <"${1#@}" | call skill.invoke @- "skill_id=$skill" "capability_id=$capability" ${async:+async=true}
		;;
	*)
		for word in "$@"; do # each name=value becomes params.name=value, in its place
			shift
			case $word in
			[!=]*=*) set -- "$@" "params.$word" ;;
			*) misused "$word is not name=value" ;;
			esac
		done
		call skill.invoke "skill_id=$skill" "capability_id=$capability" ${async:+async=true} "$@"
		;;
	esac
}

# want COUNT WORD... fails unless there are at least COUNT words, none empty
# among those.
want() {
	count=$1
	shift
	[ $# -ge "$count" ] || misused 'something is missing'
	while [ "$count" -gt 0 ]; do
		[ -n "$1" ] || misused 'something is empty'
		shift
		count=$((count - 1))
	done
}

[ $# -gt 0 ] || misused 'which action?'
action=$1
shift

case $action in
-h | --help | help)
	usage
	exit 0
	;;
esac
aibridge=$(program)

case $action in
status)
	call agent.list
	;;
list)
	if [ -n "${1-}" ]; then call skill.discover "text=$1"; else call skill.discover; fi
	;;
find)
	want 1 "$@"
	call skill.discover "text=$1"
	;;
document)
	want 1 "$@"
	if [ -n "${2-}" ]; then
		call skill.invoke "skill_id=$1" capability_id=skill.document "params.path=$2"
	else
		call skill.invoke "skill_id=$1" capability_id=skill.document
	fi
	;;
execute | execute-async)
	want 2 "$@"
	skill=$1 capability=$2
	shift 2
	case $action in execute) async= ;; *) async=true ;; esac
	invoke "$skill" "$capability" "$async" "$@"
	;;
result)
	want 1 "$@"
	call task.get "task_id=$1"
	;;
cancel)
	want 1 "$@"
	call task.cancel "task_id=$1"
	;;
-*)
	misused "$action is not an action"
	;;
*)
	want 1 "$@"
	skill=$1
	shift
	invoke "$skill" "$action" '' "$@"
	;;
esac
