package registry

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestAgentsCanTellCallersApartButNotWhoTheyAre(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.device("boiler", heating, echo)
		markOf := func(who *protocol.Principal) string {
			w.do(who, "skill.invoke", set, nil)
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, p := range d.messages[len(d.messages)-1].UserProperties {
				if p.Key == "caller" {
					return p.Value
				}
			}
			return ""
		}
		first := markOf(alice)
		if first == "" || first == alice.ID || markOf(alice) != first {
			t.Errorf("alice's calls are marked %q and %q", first, markOf(alice))
		}
		if markOf(bob) == first {
			t.Error("bob's are marked like alice's")
		}
		admin := &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
		if mark := markOf(admin); mark != "" {
			t.Errorf("an administrator's are marked %q", mark)
		}
	})
}
