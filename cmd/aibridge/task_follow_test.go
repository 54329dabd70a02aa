package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
)

func TestATaskIsFollowedUntilItHasEnded(t *testing.T) {
	for state, over := range map[string]bool{
		"pending": false, "waiting": false, "running": false, "paused": false, "aborted": false,
		"succeeded": true, "complete": true, "partial": true, "failed": true, "cancelled": true,
	} {
		if task := (&followedTask{State: state}); task.over() != over {
			t.Errorf("that %s is the end is %v", state, task.over())
		}
	}
}

// TestTheCommandLineSaysThatACallWaits has a model want something that somebody has to
// agree to: in a conversation, which says so and how to follow it, and in a run. Both
// are followed to their ends.
func TestTheCommandLineSaysThatACallWaits(t *testing.T) {
	server := httptest.NewServer(&ringer{})
	defer server.Close()
	defer server.CloseClientConnections()
	bridge := startBinary(t, t.TempDir(), "--dev", "--llm-base-url", server.URL+"/v1", "--llm-model", "m-1")
	serveBell(t, bridge, false, func() {}, func(c *client.Capability) { c.Risk = "high" })
	for name, begin := range map[string]func(t *testing.T) (id string){
		"chat": func(t *testing.T) string {
			out, stderr, code := run(t, bridge, "chat", "--tools", "bell.*", "--approval-wait", "0s", "Ring, please")
			said, id, ok := strings.Cut(stderr, "; the answer comes here, and later by: aibridge task follow ")
			if id, _, _ = strings.Cut(id, "]"); !ok || code != 0 || !strings.Contains(said, "[waiting for an operator to agree to bell.ring") {
				t.Fatalf("exit code %d: %s%s", code, out, stderr)
			}
			return id
		},
		"run": func(t *testing.T) string {
			var started struct {
				ID string `json:"run_id"`
			}
			ask(t, dial(t, bridge), "llm.run.start", `{"input":"Ring, please"}`, &started)
			return started.ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := begin(t)
			followed := make(chan string, 1)
			go func() {
				out, stderr, code := run(t, bridge, "task", "follow", id)
				followed <- fmt.Sprint(code, " ", out, stderr)
			}()
			c := dial(t, bridge)
			type asked struct {
				ID    string `json:"approval_id"`
				Nonce string `json:"nonce"`
				Task  string `json:"task_id"`
			}
			var question asked
			eventually.Holds(t, "somebody is asked", func() bool {
				var list struct{ Approvals []asked }
				ask(t, c, "approval.list", `{"state":"pending"}`, &list)
				for _, question = range list.Approvals {
					if question.Task == id {
						return true
					}
				}
				return false
			})
			ask(t, c, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, question.ID, question.Nonce), nil)
			if got := <-followed; !strings.HasPrefix(got, "0 ") || !strings.Contains(got, "I heard") || !strings.Contains(got, "rung") {
				t.Errorf("following it shows %s", got)
			}
		})
	}
}
