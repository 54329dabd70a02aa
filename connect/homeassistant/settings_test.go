package homeassistant

import (
	"fmt"
	"strings"
	"testing"
)

func TestSettingsSayWhichTopicsAnnouncementsMayName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"off", func(*Settings) {}, ""},
		{"on", func(s *Settings) { s.Space, s.Topics = "home", []string{"zigbee2mqtt/#"} }, ""},
		{"no topics", func(s *Settings) { s.Space = "home" }, "connect.homeassistant.topics: is needed"},
		{"no filter", func(s *Settings) { s.Space, s.Topics = "home", []string{"a/#/b"} }, "connect.homeassistant.topics: "},
		{"no entities", func(s *Settings) { s.Space, s.Topics, s.Entities = "home", []string{"#"}, 0 }, "connect.homeassistant.entities: "},
		{"the bridge's own", func(s *Settings) { s.Space, s.Topics, s.Prefix = "home", []string{"#"}, "aibridge/x" }, "connect.homeassistant.prefix: "},
	} {
		s := DefaultSettings()
		test.change(&s)
		var faults []string
		s.Check("aibridge", func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...).Error()) })
		if told := strings.Join(faults, "\n"); (told == "") != (test.want == "") || !strings.HasPrefix(told, test.want) {
			t.Errorf("%s: %q, want %q", test.name, told, test.want)
		}
	}
}
