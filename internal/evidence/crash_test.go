package evidence

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashDir is the environment variable that makes the test binary a child
// which claims in a log on that directory until it is killed.
const crashDir = "AIBRIDGE_CLAIMLOG_CRASH_DIR"

// claimUntilKilled claims from several goroutines, with small segments, and
// tells on standard output what was acknowledged.
func claimUntilKilled(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := Open(dir, Options{MaxClaims: 64 << 20})
	if err != nil {
		fail(err)
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				c := claim(i, 10*time.Minute)
				c.RequestID = fmt.Sprintf("%d-%d-%d", os.Getpid(), worker, i)
				if err := l.Claim(context.Background(), c); err != nil {
					fail(err)
				}
				fmt.Println(c.RequestID)
			}
		})
	}
	wg.Wait()
}

// killedAfter runs the child on dir, kills it after a while and returns what
// was acknowledged.
func killedAfter(t *testing.T, dir string, life time.Duration) (ids []string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashDir+"="+dir)
	child.Stderr = t.Output()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if ids == nil { // it has begun
			time.AfterFunc(life, func() { _ = child.Process.Kill() })
		}
		ids = append(ids, lines.Text())
	}
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return ids
}

func TestWhatWasClaimedSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	all := make([]string, 0, 1<<16)
	for round := range 6 {
		life := time.Duration(rand.IntN(60)) * time.Millisecond
		ids := killedAfter(t, dir, life)
		t.Logf("round %d: %d claims in %v", round, len(ids), life)
		all = append(all, ids...)
		l := open(t, dir, Options{})
		left := pending(l)
		for _, id := range all {
			if _, ok := left[id]; !ok {
				t.Fatalf("round %d: claim %s is lost", round, id)
			}
		}
		shut(t, l)
	}
}
