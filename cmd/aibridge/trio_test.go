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
	"github.com/aibridge/aibridge/internal/listen"
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
		ports, key := "127.0.0.1:"+freeTriple(t, "127.0.0.1"), filepath.Join(t.TempDir(), "home.key")
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
		ended := c.listen(t, deadline)
		if ended == nil {
			return c
		}
		if !strings.Contains(ended.log.String(), "address already in use") || time.Now().After(deadline) {
			t.Fatalf("a bridge ended:\n%s", ended.log)
		}
		for _, b := range c.bridges { // somebody else has a port for a moment
			b.kill()
		}
	}
}

// listen waits until all bridges listen, and returns nil, or one has ended: the others
// wait for that.
func (c *trio) listen(t *testing.T, deadline time.Time) (ended *binary) {
	t.Helper()
	for ; ; time.Sleep(5 * time.Millisecond) {
		up := 0
		for _, b := range c.bridges {
			select {
			case <-b.ended:
				return b
			default:
			}
			var err error
			if b.addresses, err = listen.ReadAddresses(b.data); err == nil {
				up++
			}
		}
		if up == len(c.bridges) {
			return nil
		}
		if time.Now().After(deadline) {
			t.Fatalf("the bridges do not come up:\n%s\n%s\n%s", c.bridges[0].log, c.bridges[1].log, c.bridges[2].log)
		}
	}
}

// restart runs a bridge that has ended again, by the same program, at other addresses.
func (c *trio) restart(t *testing.T, i int) *binary {
	t.Helper()
	c.bridges[i] = startProgram(t, c.bridges[i].path, c.bridges[i].data, c.flags[i]...)
	return c.bridges[i]
}
