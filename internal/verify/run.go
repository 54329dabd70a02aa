package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// Options are the needs of [Run].
type Options struct {
	Config  config.Config // of the bridge
	Archive io.Reader     // a backup of its state
	// Original is the data folder that the backup was made of, for the key of its
	// audit trail; "" if it is not at hand.
	Original string
	Version  string

	// Transport is the layer between the checks and the copy, for tests that
	// seed faults. Nil is none.
	Transport func(http.RoundTripper) http.RoundTripper
	// VerifyAudit replaces the verification of the trail, for the same.
	VerifyAudit func(ctx context.Context, c config.Config, heads ...string) (audit.Verification, error)
}

// A promise is something that is tried.
type promise struct {
	name    string
	kept    string // the observation if it is kept
	control string
	try     func(context.Context, *trials) error
}

// Run tries all promises on a copy of a bridge's state, and removes the copy. It
// fails if nothing could be tried.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.VerifyAudit == nil {
		o.VerifyAudit = storage.VerifyAudit
	}
	folder, err := os.MkdirTemp("", "aibridge-verify-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	model := newModel()
	defer model.Close()
	device := newDevice()
	defer device.server.Close()
	t := &trials{Options: o, device: device, config: isolated(o.Config, folder, model.URL+"/v1")}
	if t.trail, err = restore(ctx, t.config, o.Archive, o.Original); err != nil {
		return nil, err
	}
	results := []Result{resultOf(wholeState, wholeState.try(ctx, t)), resultOf(wholeTrail, wholeTrail.try(ctx, t))}
	t.config.AcceptLoss = true // faults of the state were reported by now
	stop, err := t.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("start a bridge on the copy: %w", err)
	}
	if err = t.prepare(ctx); err == nil {
		for _, p := range promises {
			results = append(results, resultOf(p, p.try(ctx, t)))
		}
	}
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	return append(results, resultOf(tamperedTrail, tamperedTrail.try(ctx, t))), ctx.Err()
}

// trials are the common part of the checks.
type trials struct {
	Options
	config config.Config // of the copy
	trail  bool          // the key of the audit trail is there
	device *device

	admin, operator, approver, observer, stranger *caller
}

// start runs a bridge on the copy until stop.
func (t *trials) start(ctx context.Context) (stop func() error, err error) {
	bridge, err := app.New(ctx, t.config, app.WithVersion(t.Version), app.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(running) }()
	plain := &http.Transport{}
	var transport http.RoundTripper = plain
	if t.Transport != nil {
		transport = t.Transport(plain)
	}
	t.admin = &caller{http: &http.Client{Transport: transport}, url: "http://" + bridge.Addresses().HTTP}
	return func() error {
		plain.CloseIdleConnections()
		cancel()
		return <-ended
	}, nil
}

// prepare makes keys and registers the device.
func (t *trials) prepare(ctx context.Context) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	if !t.config.Dev {
		text, err := os.ReadFile(filepath.Join(t.config.Data, app.AdminKeyFile))
		if err != nil {
			return err
		}
		t.admin.key = strings.TrimSpace(string(text))
	}
	for _, k := range []struct {
		to               **caller
		name, role, home string
	}{
		{&t.operator, "verify-operator", protocol.RoleOperator, ""}, {&t.approver, "verify-approver", protocol.RoleOperator, ""},
		{&t.observer, "verify-observer", protocol.RoleObserver, ""}, {&t.stranger, "verify-stranger", protocol.RoleOperator, "verify-elsewhere"},
	} {
		if t.config.Dev { // there are no credentials
			*k.to = t.admin
			continue
		}
		made, _, err := t.newKey(ctx, k.name, k.role, k.home)
		if err != nil {
			return fmt.Errorf("make a key for %s: %w", k.name, err)
		}
		*k.to = made
	}
	if err := t.admin.run(ctx, "agent.register", map[string]any{"agent_id": deviceID, "type": "end_agent", "endpoints": []string{t.device.server.URL}}, nil); err != nil {
		return fmt.Errorf("register the made-up device: %w", err)
	}
	return t.declare(ctx, "As it was approved.")
}

// ready waits until the copy serves.
func (t *trials) ready(ctx context.Context) error {
	return until(ctx, "the bridge on the copy serves", func() (bool, error) {
		answer, err := t.admin.http.Get(t.admin.url + "/readyz")
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}

// newKey makes a key on the copy.
func (t *trials) newKey(ctx context.Context, name, role, home string) (c *caller, id string, err error) {
	params := map[string]any{"principal_id": name, "kind": "operator", "roles": []string{role}}
	if home != "" {
		params["space_id"] = home
	}
	var made struct {
		Key string `json:"key"`
		ID  string `json:"key_id"`
	}
	if err := t.admin.run(ctx, "key.create", params, &made); err != nil {
		return nil, "", err
	}
	return &caller{http: t.admin.http, url: t.admin.url, key: made.Key}, made.ID, nil
}

// The capabilities of the made-up skill.
const (
	acts      = "act"
	actsOnce  = "act-once"
	vanishes  = "vanish"
	dangerous = "danger"
)

// declare registers the skill of the device.
func (t *trials) declare(ctx context.Context, danger string) error {
	what := map[string]any{"type": "object", "required": []string{"what"}, "properties": map[string]any{"what": map[string]any{"type": "string"}}}
	err := t.admin.run(ctx, "skill.register", map[string]any{"agent_id": deviceID, "skill": map[string]any{
		"skill_id": skillID, "name": "Verify", "capabilities": []any{
			map[string]any{"capability_id": acts},
			map[string]any{"capability_id": actsOnce, "effect_key": "{what}", "params_schema": what},
			map[string]any{"capability_id": vanishes},
			map[string]any{"capability_id": dangerous, "risk": "high", "description": danger},
		},
	}}, nil)
	if err != nil {
		return fmt.Errorf("register the made-up skill: %w", err)
	}
	return nil
}

// invoke has the device do something.
func (t *trials) invoke(ctx context.Context, c *caller, id, capability string, params map[string]any) error {
	if params == nil {
		params = map[string]any{}
	}
	return c.do(ctx, id, "skill.invoke", map[string]any{"skill_id": skillID, "capability_id": capability, "params": params}, nil)
}

// until waits for something that must happen soon.
func until(ctx context.Context, what string, happens func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if ok, err := happens(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
