package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// A trio is three bridges that keep one state and all work, each a process of its
// own.
type trio struct {
	bridges [3]*binary
	flags   [3][]string
}

// startTrio runs three bridges until they listen. They end with the test.
func startTrio(t *testing.T, flags ...string) *trio {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * bridgetest.Patience)
	for {
		c := new(trio)
		ports, key := "127.0.0.1:"+freeTriple(t), filepath.Join(t.TempDir(), "home.key")
		if out, err := exec.Command(path, "cluster", "init", key).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		all := ports + "1," + ports + "2," + ports + "3"
		for i := range c.bridges {
			n := strconv.Itoa(i + 1)
			c.flags[i] = append([]string{"--id", "b" + n, "--cluster-key", key, "--cluster-join", all, "--cluster-listen", ports + n, "--cluster-working", "all"}, flags...)
			c.bridges[i] = &binary{path: path, data: t.TempDir(), log: new(bytes.Buffer), ended: make(chan struct{})}
			c.bridges[i].launch(t, c.flags[i]...)
		}
		busy := false
		for _, b := range c.bridges {
			if b.listens(t, deadline) {
				continue
			}
			if busy = strings.Contains(b.log.String(), "address already in use"); !busy || time.Now().After(deadline) {
				t.Fatalf("a bridge ended:\n%s", b.log)
			}
			break
		}
		if !busy {
			return c
		}
		for _, b := range c.bridges { // somebody else has a port for a moment
			b.kill()
		}
	}
}

// restart runs a bridge that has ended again, at other addresses.
func (c *trio) restart(t *testing.T, i int) *binary {
	t.Helper()
	c.bridges[i] = startBinary(t, c.bridges[i].data, c.flags[i]...)
	return c.bridges[i]
}
