package mosquitto

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/internal/migrate"
)

func TestAConfigurationIsTakenOver(t *testing.T) {
	for name, test := range map[string]struct {
		conf, settings string
		notes          []string // each is in one note, in order
	}{
		"nothing":             {"", "mqtt: {address: 127.0.0.1:1883}\nmqtts: \"off\"", nil},
		"the port alone":      {"port 1884\nbind_address 10.0.0.1", "mqtt: {address: 10.0.0.1:1884}\nmqtts: \"off\"", nil},
		"the address first":   {"bind_address 127.0.0.1\nport 1884", "mqtt: {address: 127.0.0.1:1884}\nmqtts: \"off\"", nil},
		"every listener":      {"listener 1883\nlistener 8883 10.0.0.1\ncertfile /c\nkeyfile /k\nlistener 9001\nprotocol websockets\nlistener 0 /run/m.sock", "mqtt: {address: ':1883', unix: /run/m.sock}\nmqtts: 10.0.0.1:8883\nws: :9001\ntls: {cert: /c, key: /k}", []string{"c:5: MQTT over WebSocket", "c:7: the unix socket"}},
		"TLS only":            {"listener 8883\ncertfile /c\nkeyfile /k", "mqtt: {address: \"off\"}\nmqtts: :8883\ntls: {cert: /c, key: /k}", nil},
		"two of one sort":     {"listener 1883\nlistener 1884", "mqtt: {address: ':1883'}\nmqtts: \"off\"", []string{"c:2: there is one listener of this sort: :1884"}},
		"limits":              {"max_inflight_messages 20\nmax_queued_messages 0\npersistent_client_expiration 2w\nmessage_size_limit 100", "mqtt: {address: 127.0.0.1:1883, inflight: 20, session_expiry_seconds: 1209600}\nmqtts: \"off\"\nlimits: {payload: 1024}", nil},
		"what there is not":   {"# comment\n\nallow_anonymous true\nplugin /x.so\nrequire_certificate true\nmax_keepalive many", "mqtt: {address: 127.0.0.1:1883}\nmqtts: \"off\"", []string{"c:3: nobody gets in", "c:4: plugin has no counterpart", "c:5: client certificates", "c:6: max_keepalive"}},
		"a bridge, said once": {"connection cloud\naddress example.org\ntopic # both\nremote_password hunter2\nlistener 1883", "mqtt: {address: ':1883'}\nmqtts: \"off\"", []string{`c:1: the bridge "cloud"`}},
	} {
		b, err := Read(strings.NewReader(test.conf), "c")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := yaml.Marshal(b.Settings)
		var settings map[string]any
		if err := yaml.Unmarshal([]byte(test.settings), &settings); err != nil {
			t.Fatal(err)
		}
		if want, _ := yaml.Marshal(settings); string(got) != string(want) {
			t.Errorf("%s: settings\n%s, want\n%s", name, got, want)
		}
		expectNotes(t, name, b.Notes, test.notes)
	}
}

func expectNotes(t *testing.T, name string, notes []migrate.Note, want []string) {
	t.Helper()
	if len(notes) != len(want) {
		t.Errorf("%s: notes %v, want %q", name, notes, want)
		return
	}
	for i, n := range notes {
		if !strings.Contains(n.String(), want[i]) || strings.Contains(n.String(), "hunter2") {
			t.Errorf("%s: note %q, want %q", name, n, want[i])
		}
	}
}

// TestAFilterBecomesACondition compares each condition with what MQTT says of the
// filter: for topics and for filters.
func TestAFilterBecomesACondition(t *testing.T) {
	for filter, want := range map[string]string{
		"a/b":     `resource.id == "a/b"`,
		"a/#":     `(resource.id == "a" || resource.id like "a/*")`,
		"#":       `true`,
		"a/+":     `(resource.id like "a/*" && !(resource.id like "*/*/*") && !(resource.id like "*#"))`,
		"a/+/b":   `(resource.id like "a/*/b" && !(resource.id like "*/*/*/*") && !(resource.id like "*#"))`,
		"a/+/#":   `(resource.id like "a/*" && (!(resource.id like "*#") || resource.id like "a/*/*"))`,
		"a/+/b/#": ``,
	} {
		got, ok := covers(filter, false)
		if got != want || ok != (want != "") {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
}

func TestAnACLIsAPolicy(t *testing.T) {
	cedar, notes, err := Policy(strings.NewReader(strings.Join([]string{
		"topic read public/#", "user panel", "topic home/#", "topic read open/#", "topic deny home/secret", "pattern write home/%u/state", "pattern read x/%c",
		"topic read $SYS/#", "topic read a*b", "topic read a/+/b/#", "user ghost", "topic read x", "unknown x",
	}, "\n")), "acl", []string{"lamp", "panel"})
	if err != nil {
		t.Fatal(err)
	}
	expectNotes(t, "acl", notes, []string{
		"acl:1: clients without a user name", "acl:5: who is denied", "acl:6: \"home/%u/state\" is written out for the 2 users", "acl:7: policies do not know client ids",
		"acl:8: topics that begin with $", "acl:9: a topic with *", "acl:10: \"a/+/b/#\" cannot be said", "acl:11: the user \"ghost\"", "acl:13: unknown has no counterpart",
	})
	for _, want := range []string{
		`(principal == Agent::"lamp" && (resource.id == "home/lamp/state"))`,
		`(principal == Agent::"ghost" && (resource.id == "x"))`,
		`((resource.id == "home" || resource.id like "home/*") && !(resource.id like "*+*" || resource.id like "*#*"))`,
		`(resource.id == "open" || resource.id like "open/*")) && !(resource.id == "home/secret")`,
		`context.method == "password"`,
	} {
		if !strings.Contains(cedar, want) {
			t.Errorf("the policy lacks %s:\n%s", want, cedar)
		}
	}
	if nothing, _, err := Policy(strings.NewReader(""), "acl", nil); err != nil || strings.Count(nothing, "  false") != 2 {
		t.Errorf("an empty ACL permits something: %v\n%s", err, nothing)
	}
}

func TestFiltersOverlapThatMatchOneTopic(t *testing.T) {
	for _, test := range []struct {
		one, other string
		want       bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/c", false}, {"a", "a/b", false}, {"#", "a/b/c", true}, {"a/#", "a", true}, {"a/#", "a/b/c", true},
		{"a/#", "b/#", false}, {"a/+", "a/b", true}, {"a/+", "a/b/c", false}, {"a/+/c", "+/b/c", true}, {"a/+/c", "+/b/d", false}, {"+/#", "a", true}, {"a/b/#", "a/+", true},
	} {
		if overlap(test.one, test.other) != test.want || overlap(test.other, test.one) != test.want {
			t.Errorf("%s and %s: want %v", test.one, test.other, test.want)
		}
	}
}

func TestListenersWithFilesOfTheirOwnAreTold(t *testing.T) {
	b, err := Read(strings.NewReader(strings.Join([]string{
		"per_listener_settings true", "listener 1883", "password_file /etc/inside", "acl_file /etc/acl", "listener 8883", "certfile c", "password_file /etc/outside", "acl_file /etc/acl",
	}, "\n")), "conf")
	if err != nil {
		t.Fatal(err)
	}
	if b.PasswordFile != "/etc/inside" || b.ACLFile != "/etc/acl" {
		t.Errorf("the files are %s and %s", b.PasswordFile, b.ACLFile)
	}
	expectNotes(t, "conf", b.Notes, []string{"conf:1: users and their topics are the same", "conf:7: there is one password_file for all listeners, /etc/inside"})
}

func FuzzPolicy(f *testing.F) {
	f.Add("user a\ntopic read b/#\npattern write %u/+")
	f.Fuzz(func(t *testing.T, text string) {
		cedar, _, err := Policy(strings.NewReader(text), "acl", []string{"a"})
		if err == nil && strings.Count(cedar, "forbid") < 2 {
			t.Errorf("the policy is %s", cedar)
		}
	})
}
