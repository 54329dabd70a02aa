//go:build unix

package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("RUN_SKILL"); dir != "" {
		runUntilKilled(dir)
		return
	}
	leaks.Verify(m)
}

// runUntilKilled is an agent in a process of its own.
func runUntilKilled(dir string) {
	s, err := skill.Load(dir)
	if err != nil {
		panic(err)
	}
	r, err := New(Options{})
	if err != nil {
		panic(err)
	}
	_, _ = r.Run(context.Background(), Job{Skill: s, Capability: "hang"})
}

func TestAScriptDoesNotOutliveAnAgentThatIsKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells processes of their parent's death")
	}
	s := folder(t, map[string]string{"hang": "echo $$ >pids; while :; do sleep 0.1; done"})
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), "RUN_SKILL="+s.Dir)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pids(t, s, 1)[0]
	_ = agent.Process.Kill()
	_ = agent.Wait()
	eventually.Holds(t, "the script is gone", func() bool { return !exists(pid) })
}

// folder makes a skill of scripts, by capability. Those whose text does not
// begin with #! get the usual first line.
func folder(t *testing.T, scripts map[string]string) *skill.Skill {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "test-skill")
	if err := os.MkdirAll(filepath.Join(dir, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	var ids strings.Builder
	for _, id := range slices.Sorted(maps.Keys(scripts)) {
		text := scripts[id]
		id, parameters, _ := strings.Cut(id, " ")
		fmt.Fprintf(&ids, "    - {id: %s %s}\n", id, parameters)
		if !strings.HasPrefix(text, "#!") {
			text = "#!/bin/sh\n" + text
		}
		if err := os.WriteFile(filepath.Join(dir, "scripts", id), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	yaml := "apiVersion: skill.ooder.net/v1\nkind: Skill\nmetadata: {id: test, name: T, version: 1.2.3, description: D}\nspec:\n  capabilities:\n" + ids.String()
	if err := os.WriteFile(filepath.Join(dir, "skill.yaml"), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := skill.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runner(t *testing.T, o Options) *Runner {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	if o.Grace == 0 {
		o.Grace = 50 * time.Millisecond
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// once runs one script.
func once(t *testing.T, script, params string) (string, error) {
	t.Helper()
	r := runner(t, Options{MaxOutput: 4096})
	out, err := r.Run(t.Context(), Job{Skill: folder(t, map[string]string{"c": script}), Capability: "c", Params: json.RawMessage(params)})
	return string(out), err
}

func TestAScriptReadsParametersAndPrintsItsResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, params, want string }{
		"standard input":           {`cat`, `{"a":[1,2]}`, `{"a":[1,2]}`},
		"no parameters":            {`cat`, ``, `{}`},
		"variables":                {`printf '{"f":%s}' "$AIBRIDGE_PARAM_CELSIUS"`, `{"celsius":25.5}`, `{"f":25.5}`},
		"nothing printed":          {`:`, `{}`, `{}`},
		"white space":              {`printf '\n {"a":1}\n\n'`, `{}`, `{"a":1}`},
		"any JSON value":           {`echo 77`, `{}`, `77`},
		"input never read":         {`echo true`, `{"a":"` + strings.Repeat("x", 200_000) + `"}`, `true`},
		"input closed":             {`exec 0<&-; echo true`, `{"a":"` + strings.Repeat("x", 200_000) + `"}`, `true`},
		"the folder is at hand":    {`printf '"%s"' "$(ls skill.yaml)"`, `{}`, `"skill.yaml"`},
		"its own name is known":    {`cd "$(dirname "$0")" && printf '"%s"' *`, `{}`, `"c"`},
		"its error stream is free": {`echo chatter >&2; echo 1`, `{}`, `1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := once(t, c.script, c.params); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestFailuresAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		code   protocol.Code
		text   string // within the message
		detail string // name=value within the details
	}{
		"garbage":               {`echo hello`, protocol.Internal, "scripts/c did not print JSON", "stdout=hello"},
		"two values":            {`echo 1 2`, protocol.Internal, "did not print JSON", "stdout=1 2"},
		"binary":                {`head -c 100 /dev/zero`, protocol.Internal, "did not print JSON", ""},
		"duplicate keys":        {`echo '{"a":1,"a":2}'`, protocol.Internal, "did not print JSON", ""},
		"not a number":          {`echo NaN`, protocol.Internal, "did not print JSON", "stdout=NaN"},
		"too deep":              {`printf '[%.0s' $(seq 100)`, protocol.Internal, "did not print JSON", ""},
		"too much":              {`yes`, protocol.Internal, "scripts/c wrote more than 4096 bytes", ""},
		"status 1":              {`echo "no sensor" >&2; exit 1`, protocol.Internal, "scripts/c exited with status 1: no sensor", "exit_status=1"},
		"status 1, stderr":      {`echo one >&2; echo two >&2; exit 1`, protocol.Internal, "", "stderr=one\ntwo"},
		"usage":                 {`exit 64`, protocol.InvalidParameter, "status 64", "param_name=params"},
		"data":                  {`echo "celsius: too cold" >&2; exit 65`, protocol.InvalidParameter, "", "reason=scripts/c exited with status 65: celsius: too cold"},
		"no input":              {`exit 66`, protocol.NotFound, "", ""},
		"unavailable":           {`exit 69`, protocol.TargetUnavailable, "", ""},
		"for now":               {`exit 75`, protocol.Busy, "", "retry_after_ms=1000"},
		"permission":            {`exit 77`, protocol.PermissionDenied, "", ""},
		"a printed error":       {`echo '{"error":{"code":"3001","message":"no station x","details":{"station":"x"}}}'; exit 1`, protocol.NotFound, "no station x", "station=x"},
		"an integer code":       {`echo '{"error":{"code":4008}}'; exit 9`, protocol.Busy, "busy", "retry_after_ms=1000"},
		"an unknown code":       {`echo '{"error":{"code":"9999","message":"x"}}'; exit 9`, protocol.Internal, "status 9", ""},
		"a printed 1001":        {`echo '{"error":{"code":"1001","message":"too cold","details":{"param_name":"celsius"}}}'; exit 1`, protocol.InvalidParameter, "too cold", "param_name=celsius"},
		"a signal":              {`kill -9 $$`, protocol.Internal, "scripts/c was ended by a signal (killed)", ""},
		"its own termination":   {`kill -TERM $$; sleep 10`, protocol.Internal, "ended by a signal (terminated)", ""},
		"no interpreter":        {"#!/no/such/shell\n", protocol.TargetUnavailable, "names an interpreter in its #! line that does not exist", ""},
		"long errors are short": {`head -c 100000 /dev/zero | tr '\0' x >&2; exit 1`, protocol.Internal, "status 1: xxx", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := once(t, c.script, `{}`)
			var e *protocol.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %s, %v", out, err)
			}
			if e.Code != c.code || !strings.Contains(e.Message, c.text) {
				t.Errorf("got %v, want %s with %q", e, c.code, c.text)
			}
			if key, value, ok := strings.Cut(c.detail, "="); ok && fmt.Sprint(e.Details[key]) != value {
				t.Errorf("details %v, want %s", e.Details, c.detail)
			}
			for key, value := range e.Details {
				if len(fmt.Sprint(value)) > maxTail {
					t.Errorf("detail %s has %d bytes", key, len(fmt.Sprint(value)))
				}
			}
			if len(e.Message) > maxMessage+100 {
				t.Errorf("the message has %d bytes", len(e.Message))
			}
		})
	}
}

func TestAFileWithoutInterpreterIsExplained(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": ""})
	path := filepath.Join(s.Dir, "scripts", "c")
	if err := os.WriteFile(path, []byte("echo 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := runner(t, Options{})
	_, err := r.Run(t.Context(), Job{Skill: s, Capability: "c"})
	if protocol.CodeOf(err) != protocol.TargetUnavailable || !strings.Contains(err.Error(), "has no #! line") {
		t.Errorf("got %v", err)
	}
	if err := os.Rename(path, path+".sh"); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Run(t.Context(), Job{Skill: s, Capability: "c"}); err != nil || string(out) != "1" {
		t.Errorf("as .sh: %s, %v", out, err)
	}
}

func TestAScriptThatIsJustBeingWrittenIsGivenAMoment(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": "echo 1"})
	f, err := os.OpenFile(filepath.Join(s.Dir, "scripts", "c"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { f.Close() })
	if out, err := runner(t, Options{}).Run(t.Context(), Job{Skill: s, Capability: "c"}); err != nil || string(out) != "1" {
		t.Errorf("got %s, %v", out, err)
	}
}

// exists reports whether a process with the number runs.
func exists(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// pids waits for a script to write numbers of processes into its folder.
func pids(t *testing.T, s *skill.Skill, n int) []int {
	t.Helper()
	var found []int
	eventually.Holds(t, "the script tells its processes", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.Dir, "pids"))
		found = found[:0]
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				found = append(found, pid)
			}
		}
		return len(found) == n && strings.HasSuffix(string(text), "\n")
	})
	return found
}

// family starts a child and a grandchild that ignore polite requests and hold
// the pipes, and tells their numbers.
const family = `
trap '' TERM
(trap '' TERM; sleep 1000 & echo $! >>pids.tmp; exec sleep 1000) &
echo $! >>pids.tmp; echo $$ >>pids.tmp
while [ "$(wc -l <pids.tmp)" -lt 3 ]; do sleep 0.01; done
mv pids.tmp pids
`

// A deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAtTheDeadlineTheWholeGroupIsKilled(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"hang": family + "while :; do sleep 1; done"})
	ctx := deadline{t.Context(), make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := runner(t, Options{}).Run(ctx, Job{Skill: s, Capability: "hang"})
		done <- err
	}()
	all := pids(t, s, 3)
	close(ctx.passed)
	if err := <-done; protocol.CodeOf(err) != protocol.TimedOut || !strings.Contains(err.Error(), "the script did not end in time") {
		t.Errorf("got %v", err)
	}
	for _, pid := range all {
		eventually.Holds(t, "the process is gone", func() bool { return !exists(pid) })
	}
}

func TestACancelledCallIsKilledWithItsGroup(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"hang": family + "sleep 1000"})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := runner(t, Options{}).Run(ctx, Job{Skill: s, Capability: "hang"})
		done <- err
	}()
	all := pids(t, s, 3)
	cause := protocol.Errorf(protocol.Cancelled, "task.cancel")
	cancel(cause)
	if err := <-done; protocol.CodeOf(err) != protocol.Cancelled {
		t.Errorf("got %v", err)
	}
	if cause.Details != nil {
		t.Errorf("the shared cause was changed: %v", cause.Details)
	}
	for _, pid := range all {
		eventually.Holds(t, "the process is gone", func() bool { return !exists(pid) })
	}
}

func TestAScriptMayTidyUpWhenAskedToEnd(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": `trap 'echo tidy >tidied; exit 0' TERM; echo $$ >pids; while :; do sleep 0.01; done`})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := runner(t, Options{Grace: time.Minute}).Run(ctx, Job{Skill: s, Capability: "c"})
		done <- err
	}()
	pids(t, s, 1)
	cancel()
	if err := <-done; protocol.CodeOf(err) != protocol.Cancelled {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "tidied")); err != nil {
		t.Error("it had no time to tidy up")
	}
}

func TestABackgroundChildDoesNotHoldUpTheAnswer(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": `sleep 1000 & echo $! >pids; echo '{"done":true}'`})
	start := time.Now()
	out, err := runner(t, Options{Grace: 10 * time.Minute}).Run(t.Context(), Job{Skill: s, Capability: "c"})
	if err != nil || string(out) != `{"done":true}` {
		t.Errorf("got %s, %v", out, err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
	pid := pids(t, s, 1)[0]
	eventually.Holds(t, "the child is gone", func() bool { return !exists(pid) })
}

func TestAChildThatLeftTheGroupDoesNotHoldUpTheAnswerForLong(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		t.Skip("no setsid here")
	}
	s := folder(t, map[string]string{"c": `setsid sh -c 'echo $$ >pids; exec sleep 1000' & while [ ! -s pids ]; do sleep 0.01; done; echo 1`})
	start := time.Now()
	out, err := runner(t, Options{}).Run(t.Context(), Job{Skill: s, Capability: "c"})
	_ = syscall.Kill(pids(t, s, 1)[0], syscall.SIGKILL)
	if err != nil || string(out) != "1" {
		t.Errorf("got %s, %v", out, err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestTooMuchOutputKillsAtOnce(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": `echo $$ >pids; yes`, "err": `yes >&2 & sleep 0.2; echo 1`})
	r := runner(t, Options{MaxOutput: 1000})
	if _, err := r.Run(t.Context(), Job{Skill: s, Capability: "c"}); err == nil || !strings.Contains(err.Error(), "wrote more than 1000 bytes") {
		t.Errorf("got %v", err)
	}
	pid := pids(t, s, 1)[0]
	eventually.Holds(t, "the script is gone", func() bool { return !exists(pid) })
	if out, err := r.Run(t.Context(), Job{Skill: s, Capability: "err"}); err != nil || string(out) != "1" {
		t.Errorf("a flood of errors: %s, %v", out, err)
	}
}

func TestTheEnvironmentHoldsNothingOfTheAgents(t *testing.T) {
	t.Setenv("AIBRIDGE_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("STATION_KEY", "for the skill")
	s := folder(t, map[string]string{"c": `env | sort >env.txt`})
	r := runner(t, Options{PassEnv: []string{"STATION_KEY", "NOT_SET", "PATH"}})
	job := Job{
		Skill: s, Capability: "c", AgentID: "workshop", CallID: "call-1", TraceID: "trace-1", Traceparent: "00-1-2-01",
		Params: json.RawMessage(`{"city":"Zürich","on":true,"n":-1.50,"nothing":null,"list":[1],"multi":"a\nb"}`),
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.UnixMilli(9_000_000_000_000))
	defer cancel()
	if _, err := r.Run(ctx, job); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "env.txt"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		got[name] = value
	}
	for _, name := range []string{"PATH", "LANG", "HOME", "TMPDIR", "TZ", "PWD", "SHLVL", "_", "OLDPWD", "b"} { // the shell's, and the second line of one
		delete(got, name)
	}
	want := map[string]string{
		"STATION_KEY":            "for the skill",
		"AIBRIDGE_SKILL_ID":      "test",
		"AIBRIDGE_SKILL_VERSION": "1.2.3",
		"AIBRIDGE_SKILL_DIR":     s.Dir,
		"AIBRIDGE_CAPABILITY_ID": "c",
		"AIBRIDGE_AGENT_ID":      "workshop",
		"AIBRIDGE_CALL_ID":       "call-1",
		"AIBRIDGE_TRACE_ID":      "trace-1",
		"AIBRIDGE_DEADLINE_MS":   "9000000000000",
		"TRACEPARENT":            "00-1-2-01",
		"AIBRIDGE_PARAM_CITY":    "Zürich",
		"AIBRIDGE_PARAM_ON":      "true",
		"AIBRIDGE_PARAM_N":       "-1.50",
		"AIBRIDGE_PARAM_MULTI":   "a",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestTheBridgesOwnVariablesAreNotPassedOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"AIBRIDGE_KEY", "aibridge_key", "", "A=B", "A\x00"} {
		if _, err := New(Options{PassEnv: []string{name}}); err == nil {
			t.Errorf("%q is passed on", name)
		}
	}
}

func TestNoMoreScriptsRunAtATimeThanAllowed(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": `
n=$(ls | grep -c '^run\.'); touch run.$$; n=$((n+1))
sleep 0.05; rm run.$$; echo $n`})
	r := runner(t, Options{Concurrent: 2, Waiting: 100})
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			out, err := r.Run(t.Context(), Job{Skill: s, Capability: "c"})
			if n, _ := strconv.Atoi(string(out)); err != nil || n < 1 || n > 2 {
				t.Errorf("got %s, %v", out, err)
			}
		})
	}
	group.Wait()
}

func TestTooManyCallsAreTurnedAway(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": `echo $$ >pids; sleep 1000`})
	r := runner(t, Options{Concurrent: 1, Waiting: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	run := func(want protocol.Code) {
		group.Go(func() {
			if _, err := r.Run(ctx, Job{Skill: s, Capability: "c"}); protocol.CodeOf(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	run(protocol.Cancelled)
	pids(t, s, 1)
	run(protocol.Cancelled)
	eventually.Holds(t, "one waits", func() bool { return r.turns.Waiting() == 1 })
	_, err := r.Run(ctx, Job{Skill: s, Capability: "c"})
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.Busy || e.Details["retry_after_ms"] == nil {
		t.Errorf("got %v", err)
	}
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	<-short.Done()
	if _, err := r.Run(short, Job{Skill: s, Capability: "c"}); protocol.CodeOf(err) != protocol.TimedOut {
		t.Errorf("a late call: %v", err)
	}
	cancel()
	group.Wait()
	if n := r.turns.Waiting(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

func TestACallWithoutADeadlineIsBoundedAllTheSame(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": `sleep 1000`})
	_, err := runner(t, Options{MaxTime: 20 * time.Millisecond}).Run(t.Context(), Job{Skill: s, Capability: "c"})
	if protocol.CodeOf(err) != protocol.TimedOut {
		t.Errorf("got %v", err)
	}
}

func TestAnUnknownCapabilityIsRefused(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": ``})
	for _, id := range []protocol.CapabilityID{"d", "../../bin/sh", ""} {
		if _, err := runner(t, Options{}).Run(t.Context(), Job{Skill: s, Capability: id}); protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestDefaultsReachTheScript(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c , parameters: {digits: {type: integer, default: 2}}": `printf '[%s,%s]' "$AIBRIDGE_PARAM_DIGITS" "$(cat)"`})
	if out, err := runner(t, Options{}).Run(t.Context(), Job{Skill: s, Capability: "c"}); err != nil || string(out) != `[2,{"digits":2}]` {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestProgressIsPassedOn(t *testing.T) {
	t.Parallel()
	s := folder(t, map[string]string{"c": `
echo "::progress 10 warming up" >&2
echo "::progress nonsense" >&2
echo "an ordinary line" >&2
sleep 0.15
printf '::progress 60%%' >&2
exit 1`})
	var seen []string
	note := func(percent float64, message string) { seen = append(seen, fmt.Sprint(percent, " ", message)) }
	_, err := runner(t, Options{}).Run(t.Context(), Job{Skill: s, Capability: "c", Progress: note})
	if want := []string{"10 warming up"}; !slices.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
	var e *protocol.Error
	if !errors.As(err, &e) || e.Details["stderr"] != "::progress nonsense\nan ordinary line" {
		t.Errorf("got %v %v", err, e.Details)
	}
}
