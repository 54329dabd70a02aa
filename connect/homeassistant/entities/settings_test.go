package entities

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestSettingsSayWhichSkillsAreShown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"off":              {func(*Settings) {}, ""},
		"on":               {func(s *Settings) { s.Space, s.Skills = "home", []string{"lamp-*"} }, ""},
		"no skills":        {func(s *Settings) { s.Space = "home" }, "connect.homeassistant.publish.skills: is needed"},
		"no space":         {func(s *Settings) { s.Skills = []string{"*"} }, "connect.homeassistant.publish.space: is needed"},
		"no pattern":       {func(s *Settings) { s.Space, s.Skills = "home", []string{"["} }, "connect.homeassistant.publish.skills: "},
		"too often":        {func(s *Settings) { s.Space, s.Skills, s.Refresh = "home", []string{"*"}, time.Millisecond }, "connect.homeassistant.publish.refresh: "},
		"none":             {func(s *Settings) { s.Space, s.Skills, s.Most = "home", []string{"*"}, 0 }, "connect.homeassistant.publish.most: "},
		"the bridge's own": {func(s *Settings) { s.Space, s.Skills, s.Prefix = "home", []string{"*"}, "aibridge" }, "connect.homeassistant.publish.prefix: "},
	} {
		s := DefaultSettings()
		test.change(&s)
		var faults []string
		s.Check("aibridge", func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...).Error()) })
		if told := strings.Join(faults, "\n"); (told == "") != (test.want == "") || !strings.HasPrefix(told, test.want) {
			t.Errorf("%s: %q, want %q", name, told, test.want)
		}
	}
	s := Settings{Space: "home", Skills: []string{"lamp-*", "desk"}}
	for id, want := range map[protocol.SkillID]bool{"lamp-1": true, "desk": true, "desk2": false, "alamp-1": false} {
		if got := s.shows(&Skill{ID: id, Space: "home"}); got != want {
			t.Errorf("%s: %v", id, got)
		}
	}
	for owner, want := range map[string]bool{"bindings": true, "homeassistant": false} {
		if got := s.shows(&Skill{ID: "desk", Space: "home", Owner: protocol.Party{Kind: protocol.KindBridge, ID: owner}}); got != want {
			t.Errorf("of %s: %v", owner, got)
		}
	}
	if s.shows(&Skill{ID: "desk", Space: "elsewhere"}) {
		t.Error("a skill of another space is shown")
	}
}
