package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/natsd"
)

// crashDir is the environment variable that makes the test binary a child
// which writes to a store on that directory until it is killed.
const crashDir = "AIBRIDGE_STORE_CRASH_DIR"

// writeUntilKilled writes from several goroutines and tells on standard output
// what it tries, "try KEY VALUE", and what was acknowledged, "did KEY". The
// value of a deleted key is "-". Claims are only told when acknowledged.
func writeUntilKilled(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	n, err := natsd.Start(natsd.Options{Dir: dir})
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	s, err := Open(ctx, Conns{State: n.State(), Flow: n.Flow()}, patient(Options{}))
	if err != nil {
		fail(err)
	}
	things := NewTable[thing](s, "thing")
	if err := s.Load(ctx); err != nil {
		fail(err)
	}
	run := fmt.Sprint(os.Getpid())
	try := func(key string, v *thing) *thing {
		fmt.Println("try", key, written(v))
		return v
	}
	work := []func(i int) (key string, err error){
		func(i int) (string, error) {
			key := fmt.Sprintf("put/%d", i%20)
			_, err := things.Put(ctx, key, try(key, &thing{Name: run, N: i}))
			return key, err
		},
		func(i int) (string, error) {
			v := try("pair/b", &thing{Name: run, N: i})
			return "pair/b", s.Atomic(ctx, things.PutOp("pair/a", v, 0), things.PutOp("pair/b", v, 0), things.PutOp("pair/c", v, 0))
		},
		func(i int) (string, error) {
			if _, err := things.Put(ctx, "gone", try("gone", &thing{Name: run, N: i})); err != nil {
				return "", err
			}
			try("gone", nil)
			return "gone", things.Delete(ctx, "gone", 0)
		},
		func(i int) (string, error) {
			c := claim(i, 10*time.Minute)
			c.RequestID = fmt.Sprintf("claim-%s-%d", run, i)
			return c.RequestID, s.Claims().Claim(ctx, c)
		},
	}
	var wg sync.WaitGroup
	for _, f := range work {
		wg.Go(func() {
			for i := 0; ; i++ {
				key, err := f(i)
				if err != nil {
					fail(err)
				}
				fmt.Println("did", key)
			}
		})
	}
	wg.Wait()
}

// written is the form in which a value is told of.
func written(v *thing) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%s/%d", v.Name, v.N)
}

// killedAfter runs the child on dir, kills it after a while and returns what it
// said.
func killedAfter(t *testing.T, dir string, life time.Duration) []string {
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
	var said []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if said == nil { // it has begun
			time.AfterFunc(life, func() { _ = child.Process.Kill() })
		}
		said = append(said, lines.Text())
	}
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return said
}

func TestWhatWasAcknowledgedSurvivesKill(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	dir := t.TempDir()
	possible := make(map[string][]string) // by key: the last acknowledged value and those tried after it
	claims := make(map[string]bool)
	for round := range rounds {
		life := time.Duration(20+rand.IntN(250)) * time.Millisecond
		said := killedAfter(t, dir, life)
		for _, line := range said {
			what := strings.Fields(line)
			switch key := what[1]; {
			case what[0] == "try":
				if possible[key] == nil {
					possible[key] = []string{"-"}
				}
				possible[key] = append(possible[key], what[2])
			case strings.HasPrefix(key, "claim"):
				claims[key] = true
			default:
				possible[key] = possible[key][len(possible[key])-1:]
			}
		}
		t.Logf("round %d: %d lines in %v", round, len(said), life)
		verifyAcknowledged(t, dir, possible, claims)
	}
}

func verifyAcknowledged(t *testing.T, dir string, possible map[string][]string, claims map[string]bool) {
	t.Helper()
	n := embedded(t, dir)
	defer n.Close()
	s := open(t, n, Options{})
	defer s.Close()
	things := NewTable[thing](s, "thing")
	load(t, s)
	for key, want := range possible {
		v, _, _ := things.Get(key)
		if !slices.Contains(want, written(v)) {
			t.Errorf("%s is %s, want %s", key, written(v), strings.Join(want, " or "))
		}
		possible[key] = []string{written(v)}
	}
	a, _, _ := things.Get("pair/a")
	b, _, _ := things.Get("pair/b")
	c, _, _ := things.Get("pair/c")
	if written(a) != written(b) || written(b) != written(c) {
		t.Errorf("an atomic change happened in part: %s, %s, %s", written(a), written(b), written(c))
	}
	left := pending(s)
	for id := range claims {
		if _, ok := left[id]; !ok {
			t.Errorf("claim %s is lost", id)
		}
	}
}
