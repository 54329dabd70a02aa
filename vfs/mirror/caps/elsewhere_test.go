package caps

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A house whose Caps another one mirrors has commands run there, with the rights of
// their callers.
func TestCommandsRunWhereCapsAreMirrored(t *testing.T) {
	mirrors := newHouse(t)
	away := errors.New("the bridge that mirrors has ended")
	var gone bool
	asked := newHouse(t, func(o *Options) {
		o.Elsewhere = func(ctx context.Context, do string, with, result any) (bool, error) {
			if gone {
				return true, away
			}
			body, err := json.Marshal(with)
			if err != nil {
				return true, err
			}
			said, err := mirrors.Errands()[do](ctx, body)
			if err != nil {
				return true, err
			}
			if body, err = json.Marshal(said); err != nil {
				return true, err
			}
			return true, json.Unmarshal(body, result)
		}
	})
	mirrors.declare("home", "{}")
	ctx := t.Context()
	if _, err := asked.write("disk/plan.txt", "21"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(mirrors.dir, "default", "home", "disk", "plan.txt")); string(got) != "21" {
		t.Errorf("the folder has %q, %v", got, err)
	}
	if _, err := asked.Pause(ctx, call(reader), PauseParams{Cap: "home"}); protocol.CodeOf(err) != protocol.VFSPermission {
		t.Errorf("somebody who may only read paused a mirror: %v", err)
	}
	if list, err := asked.List(ctx, call(stranger), ListParams{}); err != nil || len(list.Mirrors) != 0 {
		t.Errorf("a stranger is shown %+v, %v", list, err)
	}
	if list, err := asked.List(ctx, call(reader), ListParams{}); err != nil || len(list.Mirrors) != 1 {
		t.Errorf("a reader is shown %+v, %v", list, err)
	}
	gone = true
	if _, err := asked.Status(ctx, call(owner), StatusParams{Cap: "home"}); !errors.Is(err, away) {
		t.Errorf("the status is %v", err)
	}
}

// Nobody is told that a Cap is not mirrored by a bridge that is only beginning to.
func TestCommandsWaitForABridgeThatBeginsToMirror(t *testing.T) {
	s := New(Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	cancel(late)
	if _, err := s.List(ctx, call(owner), ListParams{}); !errors.Is(err, late) {
		t.Errorf("the list is %v", err)
	}
}
