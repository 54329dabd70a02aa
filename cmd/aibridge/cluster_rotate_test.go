package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// withKey is the flags of a bridge with another key of the cluster.
func withKey(flags []string, key string) []string {
	flags = slices.Clone(flags)
	for i := range flags[1:] {
		if flags[i] == "--cluster-key" {
			flags[i+1] = key
		}
	}
	return flags
}

// registers registers an agent at a bridge, as soon as that can store something.
func registers(t *testing.T, b *binary, agent string) {
	t.Helper()
	c := dial(t, b)
	var err error
	eventually.Holds(t, agent+" is registered", func() bool {
		err = asks(t, c, "agent.register", map[string]any{"agent_id": agent, "type": "end_agent"}, nil)
		return err == nil
	}, &err)
}

// TestTheKeyOfAClusterIsReplacedWhileItWorks replaces the key of the routes of three
// bridges. All know the next one when they start anew; then each is stopped in turn, one
// of them killed, and shows it. Something is registered while each is away, and is known
// everywhere in the end. Who has the old key then is not let in.
func TestTheKeyOfAClusterIsReplacedWhileItWorks(t *testing.T) {
	c := startTrio(t, "--dev")
	old := c.flags[0][3]
	announced := c.rotated(t, old, 1)
	for i, b := range c.bridges {
		b.kill()
		c.bridges[i] = &binary{path: b.path, data: b.data, log: new(bytes.Buffer), ended: make(chan struct{})}
		c.flags[i] = withKey(c.flags[i], announced)
	}
	for i, b := range c.bridges {
		b.launch(t, c.flags[i]...)
	}
	if ended := c.listen(t, time.Now().Add(3*bridgetest.Patience)); ended != nil {
		t.Fatalf("a bridge ended:\n%s", ended.log)
	}

	turned := c.rotated(t, announced, 2)
	var agents []string
	for i, end := range []func(){func() { c.bridges[0].stop(t) }, c.bridges[1].kill, func() { c.bridges[2].stop(t) }} {
		end()
		agents = append(agents, fmt.Sprint("agent-", i))
		registers(t, c.bridges[(i+1)%3], agents[i])
		c.flags[i] = withKey(c.flags[i], turned)
		c.restart(t, i)
	}

	c.bridges[0].kill()
	c.flags[0] = withKey(c.flags[0], c.rotated(t, turned, 3))
	c.restart(t, 0)
	for _, b := range c.bridges {
		bridge := dial(t, b)
		for _, agent := range agents {
			var err error
			eventually.Holds(t, agent+" is known", func() bool {
				err = asks(t, bridge, "agent.get", map[string]any{"agent_id": agent}, nil)
				return err == nil
			}, &err)
		}
	}
	c.bridges[1].kill() // and comes back with the old key, of which the first knows nothing any more
	isNotLetIn(t, c.bridges[1], withKey(c.flags[1], old), "what answers at "+c.flags[0][7]+" has not the key of this cluster")
}

// rotated is the key of the cluster with which a rotation goes on.
func (c *trio) rotated(t *testing.T, key string, step int) string {
	t.Helper()
	next := filepath.Join(t.TempDir(), "home.key")
	if out, err := exec.Command(c.bridges[0].path, "cluster", "rotate", key, next).CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("step %d of 3", step)) {
		t.Fatalf("%v: %s", err, out)
	}
	return next
}

// isNotLetIn starts a bridge that has ended until it says that others have another key.
func isNotLetIn(t *testing.T, b *binary, flags []string, why string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(b.path, append([]string{"serve", "--data", b.data, "--mqtt", freeAddress(), "--mqtts", freeAddress(), "--http", freeAddress(), "--ws", freeAddress()}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var said []byte
	eventually.Holds(t, "who has the old key is told so", func() bool {
		said, _ = os.ReadFile(path)
		return strings.Contains(string(said), why)
	}, &said)
}

// TestABridgeOfAClusterBeginsAnotherChain takes the key of the audit trail away from one
// of three bridges: its chain begins anew, with a word about it, and all verify.
func TestABridgeOfAClusterBeginsAnotherChain(t *testing.T) {
	c := startTrio(t, "--dev")
	registers(t, c.bridges[1], "before")
	export := filepath.Join(t.TempDir(), "trail.jsonl")
	c.bridges[0].aibridge(t, "audit", "export", export)
	c.bridges[1].stop(t)
	for _, file := range []string{"audit.key", "audit.head"} {
		if err := os.Remove(filepath.Join(c.bridges[1].data, file)); err != nil {
			t.Fatal(err)
		}
	}
	again := startBinary(t, c.bridges[1].data, slices.Concat(c.flags[1], []string{"--accept-loss"})...)
	c.bridges[1] = again
	registers(t, again, "behind")
	c.bridges[1].stop(t)
	registers(t, c.restart(t, 1), "later") // without being told to accept anything
	var report json.RawMessage
	eventually.Holds(t, "the trails verify", func() bool {
		return asks(t, dial(t, c.bridges[2]), "audit.verify", map[string]any{}, &report) == nil && strings.Contains(string(report), `"ok":true`)
	}, &report)
	text, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`"key":"([^"]+)"`).FindSubmatch(text)
	c.bridges[0].aibridge(t, "audit", "verify", "--file", export, "--signed-by", string(key[1]))
}
