package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A bookcase has a hundred books and more, which everybody may read as long as it is open.
type bookcase struct {
	library
	closed atomic.Bool
	asked  atomic.Int64 // how often the state of a book was asked for

	mu       sync.Mutex
	editions map[string]int
}

// change makes a new edition of a book.
func (s *bookcase) change(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.editions[uri]++
}

func newBookcase() *bookcase { return &bookcase{editions: make(map[string]int)} }

func (s *bookcase) Stamp(_ context.Context, _ tools.Environment, uri string) (string, error) {
	s.asked.Add(1)
	if s.closed.Load() || !strings.HasPrefix(uri, "vfs:///books/") {
		return "", protocol.Errorf(protocol.PermissionDenied, "the bookcase is closed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.editions[uri]), nil
}

// hears connects a client that hears of changes.
func hears(t *testing.T, w *world, who, version string) (*sdk.ClientSession, chan string) {
	heard := make(chan string, 64)
	return w.connect(t, who, version, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { heard <- r.Params.URI },
	}), heard
}

func TestFollowersHearOfChangesOfAResource(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			books := newBookcase()
			w := newWorld(t, func(o *mcpdoor.Options) { o.Resources = books })
			c, heard := hears(t, w, "ada", version)
			other, silent := hears(t, w, "bob", version)
			for _, uri := range []string{"vfs:///books/a", "vfs:///books/b"} {
				if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
					t.Fatal(err)
				}
			}
			if err := other.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "vfs:///books/c"}); err != nil {
				t.Fatal(err)
			}
			// A change of one is told to its follower alone. Streams begin in the
			// background: the change is made until it is heard.
			eventually.Holds(t, "the change is heard", func() bool {
				books.change("vfs:///books/a")
				w.Touch("vfs:///books/a")
				select {
				case uri := <-heard:
					if uri != "vfs:///books/a" {
						t.Fatalf("heard of %s", uri)
					}
					return true
				default:
					return false
				}
			})
			// One of the folder is one of all that is in it.
			eventually.Holds(t, "the change of the folder is heard", func() bool {
				books.change("vfs:///books/b")
				w.Touch("vfs:///books/")
				select {
				case uri := <-heard:
					return uri == "vfs:///books/b"
				default:
					return false
				}
			})
			if err := c.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: "vfs:///books/a"}); err != nil {
				t.Fatal(err)
			}
			select {
			case uri := <-silent:
				t.Errorf("bob heard of %s", uri)
			default:
			}
		})
	}
}

func TestNobodyFollowsWhatItMayNotRead(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.Foreign = abroad{resources: []string{"mcp:///a/1"}} })
	ada, _ := hears(t, w, "ada", "2025-11-25")
	eve, _ := hears(t, w, "eve", "2025-11-25")
	for _, uri := range []string{secretPlans, "mcp:///a/1"} {
		if err := ada.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
			t.Errorf("ada, %s: %v", uri, err)
		}
		there := eve.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri})
		absent := eve.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri + "x"})
		if there == nil || absent == nil || strings.ReplaceAll(absent.Error(), uri+"x", uri) != there.Error() {
			t.Errorf("eve, %s: %v, and of one that is not there %v", uri, there, absent)
		}
	}
}

// Who may not read a resource any more hears of nothing that happens to it.
func TestAFollowerThatMayNotReadAnyMoreHearsNothing(t *testing.T) {
	books := newBookcase()
	w := newWorld(t, func(o *mcpdoor.Options) { o.Resources = books })
	c, heard := hears(t, w, "ada", "2025-11-25")
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "vfs:///books/a"}); err != nil {
		t.Fatal(err)
	}
	asked := books.asked.Load()
	books.closed.Store(true)
	eventually.Holds(t, "the right is asked for again", func() bool {
		books.change("vfs:///books/a")
		w.Touch("vfs:///books/a")
		return books.asked.Load() > asked+2
	})
	select {
	case uri := <-heard:
		t.Errorf("heard of %s", uri)
	default:
	}
}

func TestASessionFollowsOnlySoMuch(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.Resources = newBookcase() })
	c, _ := hears(t, w, "ada", "2025-11-25")
	for i := range 100 {
		if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: fmt.Sprintf("vfs:///books/%d", i)}); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "vfs:///books/1"}); err != nil {
		t.Errorf("one that is followed already: %v", err)
	}
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "vfs:///books/100"}); err == nil || !strings.Contains(err.Error(), "at most 100") {
		t.Errorf("one more: %v", err)
	}
	if err := c.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: "vfs:///books/1"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "vfs:///books/100"}); err != nil {
		t.Errorf("in the place of another: %v", err)
	}
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "vfs:///books/" + strings.Repeat("x", 3000)}); err == nil {
		t.Error("a URI of 3000 bytes is followed")
	}
}

func TestPromptsAndTemplatesOfOtherServersAreCompletedThere(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) {
		o.Foreign, o.Completions = abroad{prompts: []string{"mcp.a.sum"}}, completions{}
	})
	c := w.connect(t, "ada", "", nil)
	complete := func(ref *sdk.CompleteReference) (*sdk.CompleteResult, error) {
		return c.Complete(t.Context(), &sdk.CompleteParams{
			Ref: ref, Argument: sdk.CompleteParamsArgument{Name: "path", Value: "no"}, Context: &sdk.CompleteContext{Arguments: map[string]string{"other": "x"}},
		})
	}
	if r, err := complete(&sdk.CompleteReference{Type: "ref/prompt", Name: "mcp.a.sum"}); err != nil || r.Completion.Values[0] != "mcp.a.sum||path|no|x" || !r.Completion.HasMore {
		t.Errorf("prompt: %v %+v", err, r)
	}
	if r, err := complete(&sdk.CompleteReference{Type: "ref/resource", URI: "mcp:///a/{x}"}); err != nil || r.Completion.Values[0] != "|mcp:///a/{x}|path|no|x" {
		t.Errorf("template: %v %+v", err, r)
	}
	if r, err := complete(&sdk.CompleteReference{Type: "ref/prompt", Name: "weather"}); err != nil || len(r.Completion.Values) != 0 {
		t.Errorf("a manual: %v %+v", err, r)
	}
	if _, err := complete(&sdk.CompleteReference{Type: "ref/prompt", Name: "ghost"}); err == nil || !strings.Contains(err.Error(), "ref.name") {
		t.Errorf("no prompt: %v", err)
	}
}

// completions propose nothing.
type completions struct{}

func (completions) Complete(context.Context, tools.Environment, string, string, string, map[string]string, int) ([]string, bool, error) {
	return nil, false, nil
}
