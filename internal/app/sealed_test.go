package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// secret is the part that nobody but the two ends may see.
const secret = "open-sesame-4711"

// A vault is a skill that takes sealed params only.
type vault struct {
	node *bridgetest.Node
	key  *client.SealKey
	runs atomic.Int32
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{node: bridgetest.Start(t), key: sealKey(t)}
	v.serve(t, "vault", v.key)
	return v
}

func sealKey(t *testing.T) *client.SealKey {
	t.Helper()
	k, err := client.NewSealKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type word struct {
	Word string `json:"word"`
}

// serve offers a skill; its agent is gone at the end of the test.
func (v *vault) serve(t *testing.T, id protocol.SkillID, keys ...*client.SealKey) {
	t.Helper()
	c := v.node.Dial(t, client.WithAgent(client.Agent{ID: protocol.AgentID("agent-of-" + id)}))
	open := client.Handle(func(_ context.Context, in *client.Invocation, p word) (word, error) {
		v.runs.Add(1)
		if p.Word != secret {
			return word{}, protocol.Errorf(protocol.PermissionDenied, "%s is not the word", p.Word)
		}
		in.Delta(word{"half of " + secret})
		return word{"behind " + p.Word}, nil
	})
	_, err := c.ServeSkill(t.Context(), client.Skill{
		ID: id, Sealing: &client.Sealing{Keys: keys},
		Capabilities: []client.Capability{{ID: "open", Sealed: client.SealedRequired, Handler: open,
			ParamsSchema: json.RawMessage(`{"type":"object","required":["word"]}`), ResultSchema: json.RawMessage(`{"type":"object","required":["word"]}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

type invoked struct {
	Data word `json:"data"`
}

func (v *vault) open(t *testing.T, c *client.Client, text string, opts ...client.CallOption) (invoked, error) {
	t.Helper()
	return client.Call[invoked](t.Context(), c, "skill.invoke",
		map[string]any{"skill_id": "vault", "capability_id": "open", "params": word{text}}, opts...)
}

func TestTheBridgePassesOnWhatItCannotRead(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	spy := v.node.Dial(t)
	var seen atomic.Int32
	var leaked atomic.Bool
	if _, err := spy.Subscribe(t.Context(), "aibridge/#", func(_ context.Context, m client.Message) {
		seen.Add(1)
		if bytes.Contains(m.Payload, []byte("sesame")) {
			leaked.Store(true)
		}
	}); err != nil {
		t.Fatal(err)
	}
	caller := v.node.Dial(t)
	var told []string
	got, err := v.open(t, caller, secret, client.Sealed(client.SealOptions{Key: v.key.Public()}), client.OnEvent(func(e *protocol.Event) {
		if e.Name == "task.delta" {
			told = append(told, string(e.Data))
		}
	}))
	if err != nil || got.Data.Word != "behind "+secret {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(told) != 1 || told[0] != `{"word":"half of `+secret+`"}` {
		t.Errorf("told %q", told)
	}
	_, err = v.open(t, caller, "wrong-sesame", client.Sealed(client.SealOptions{TrustBridge: true}))
	if e := protocol.AsError(err); err == nil || e.Code != protocol.PermissionDenied || e.Message != "wrong-sesame is not the word" {
		t.Errorf("the skill's own error is %v", err)
	}
	eventually.Holds(t, "the spy saw both requests and answers", func() bool { return seen.Load() >= 4 })
	if leaked.Load() {
		t.Error("the secret was on the wire")
	}
	v.node.Stop(t)
	err = filepath.WalkDir(v.node.Config.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("sesame")) {
			t.Errorf("the secret is in %s", d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSealedCallsTrustNoOtherKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	caller := v.node.Dial(t)
	for name, o := range map[string]client.SealOptions{"another key": {Key: sealKey(t).Public()}, "nothing": {}} {
		if _, err := v.open(t, caller, secret, client.Sealed(o)); err == nil {
			t.Errorf("%s: sealed", name)
		}
	}
	if _, err := v.open(t, caller, secret); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("in the open: %v", err)
	}
	if n := v.runs.Load(); n != 0 {
		t.Errorf("the handler ran %d times", n)
	}
}

// forward sends params as they are, as a bridge that meddles might.
func forward(t *testing.T, c *client.Client, skill string, params any) error {
	t.Helper()
	_, err := client.Call[json.RawMessage](t.Context(), c, "skill.invoke",
		map[string]any{"skill_id": skill, "capability_id": "open", "params": params}, client.WithoutRetry())
	return err
}

func TestSealedParamsAreForOneUseInOnePlace(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.serve(t, "other", v.key) // the same key: only the skill's id differs
	spy, captured := v.node.Dial(t), make(chan protocol.Sealed, 8)
	if _, err := spy.Subscribe(t.Context(), "aibridge/agent/agent-of-vault/request", func(_ context.Context, m client.Message) {
		request, err := protocol.DecodeRequest(m.Payload, protocol.Limits{})
		if err != nil {
			return
		}
		var p struct {
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(request.Params, &p) != nil {
			return
		}
		if s, err := protocol.ParseSealed(p.Params, "params"); err == nil {
			captured <- *s
		}
	}); err != nil {
		t.Fatal(err)
	}
	caller := v.node.Dial(t)
	if _, err := v.open(t, caller, secret, client.Sealed(client.SealOptions{TrustBridge: true})); err != nil {
		t.Fatal(err)
	}
	letter := <-captured
	if err := forward(t, caller, "vault", letter.Wrap()); protocol.CodeOf(err) != protocol.IDReused {
		t.Errorf("a replay: %v", err)
	}
	for name, change := range map[string]func(*protocol.Sealed){
		"the ciphertext":    func(s *protocol.Sealed) { s.Ciphertext = flipped(s.Ciphertext) },
		"the key's capsule": func(s *protocol.Sealed) { s.Enc = flipped(s.Enc) },
		"the reply key":     func(s *protocol.Sealed) { s.Reply = sealKey(t).Public() },
		"the id":            func(s *protocol.Sealed) { s.ID = "another" },
		"the time":          func(s *protocol.Sealed) { s.At++ },
	} {
		changed := letter
		change(&changed)
		if err := forward(t, caller, "vault", changed.Wrap()); protocol.CodeOf(err) != protocol.ProofFailed {
			t.Errorf("%s changed: %v", name, err)
		}
	}
	if err := forward(t, caller, "other", letter.Wrap()); protocol.CodeOf(err) != protocol.ProofFailed {
		t.Errorf("another skill: %v", err)
	}
	if n := v.runs.Load(); n != 1 {
		t.Errorf("the handler ran %d times", n)
	}
}

func flipped(b []byte) []byte {
	b = bytes.Clone(b)
	b[0] ^= 1
	return b
}

func TestKeysOfASkillChangeWithoutLosingACall(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	caller := v.node.Dial(t)
	next := sealKey(t)
	for _, step := range []struct{ serve, trust []*client.SealKey }{
		{[]*client.SealKey{next, v.key}, []*client.SealKey{next, v.key}}, // both count
		{[]*client.SealKey{next}, []*client.SealKey{next}},               // the old one is gone
	} {
		v.serve(t, "vault", step.serve...)
		for _, k := range step.trust {
			if _, err := v.open(t, caller, secret, client.Sealed(client.SealOptions{Key: k.Public()})); err != nil {
				t.Errorf("key %s: %v", k.ID, err)
			}
		}
	}
	if _, err := v.open(t, caller, secret, client.Sealed(client.SealOptions{Key: v.key.Public()})); protocol.CodeOf(err) != protocol.ProofFailed {
		t.Errorf("the old key: %v", err)
	}
}
