package nats

import (
	"fmt"
	"strings"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// topics have all that is special in the mapping.
var topics = []string{
	"a", "a/b", "sensors/hall/temp", "/a", "a/", "/", "//", "a//b", "a///b", "/a/", "//a//", "a.b", "a.b/c", ".", "..", "a./b", "a/.b", "./", "/.", "a*b/c>",
	"sensors//temp", "ü/é", "a.", ".a", "/.a", "a//.", "a.//b",
}

func TestTopicsAndSubjectsGoBothWays(t *testing.T) {
	for _, topic := range topics {
		subject, err := subjectOf(topic, false)
		if err != nil {
			t.Errorf("%q: %v", topic, err)
			continue
		}
		if back, err := topicOf(subject); err != nil || back != topic {
			t.Errorf("%q is %q, and that is %q, %v", topic, subject, back, err)
		}
	}
}

// TestTheMappingIsThatOfNATSServer asks one that speaks MQTT.
func TestTheMappingIsThatOfNATSServer(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		ServerName: "judge", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		MQTT: server.MQTTOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(eventually.Patience) {
		t.Fatal("NATS does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	heard, err := conn.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	varz, err := s.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(fmt.Sprintf("tcp://127.0.0.1:%d", varz.MQTT.Port)).SetClientID("judge").SetProtocolVersion(4))
	if done := client.Connect(); !done.WaitTimeout(eventually.Patience) || done.Error() != nil {
		t.Fatalf("connect to NATS over MQTT: %v", done.Error())
	}
	t.Cleanup(func() { client.Disconnect(0) })
	for _, topic := range topics {
		if done := client.Publish(topic, 0, false, topic); !done.WaitTimeout(eventually.Patience) || done.Error() != nil {
			t.Fatalf("%q: %v", topic, done.Error())
		}
		ours, _ := subjectOf(topic, false)
		for {
			m, err := heard.NextMsg(eventually.Patience)
			if err != nil {
				t.Fatalf("NATS carries nothing for %q: %v", topic, err)
			}
			if string(m.Data) != topic || strings.HasPrefix(m.Subject, "$") {
				continue
			}
			if m.Subject != ours {
				t.Errorf("%q is %q in NATS, and %q here", topic, m.Subject, ours)
			}
			break
		}
	}
}

func TestWhatHasNoCounterpartIsRefused(t *testing.T) {
	for topic, want := range map[string]error{
		"": errNoTopic, "a b": errWhitespace, "a\tb": errWhitespace, "a\x00": errControl, "a\x7f": errControl,
		"a/+": errWildcard, "a/#": errWildcard, "a/*": errMeansMore, ">": errMeansMore, "*/a": errMeansMore,
	} {
		if subject, err := subjectOf(topic, false); err != want {
			t.Errorf("%q: %q, %v", topic, subject, err)
		}
	}
	for _, subject := range []string{"", "a/b", "a+b", "a.#", "a/", "a.*", ">", "a..b", "a b", "/"} {
		if topic, err := topicOf(subject); err == nil {
			t.Errorf("%q is %q", subject, topic)
		}
	}
}

func TestFiltersAreSubjectsWithWildcards(t *testing.T) {
	for filter, want := range map[string]string{
		"a/#": "a.> a", "a/+/c": "a.*.c", "a/+": "a.*", "a.b/#": "a//b.> a//b", "a": "a", "a//#": "a./.> a./",
	} {
		got, err := subjectsOf(filter)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v", filter, got, err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		settings Settings
		want     string
	}{
		"nothing":          {Settings{}, ""},
		"no address":       {Settings{Principal: "/key"}, "doors.nats.url: is needed by the other settings of doors.nats"},
		"half a pair":      {Settings{URL: "nats://h", Cert: "c"}, "doors.nats: cert and key go together"},
		"good":             {Settings{URL: "nats://h", Publish: []string{"a/#"}, Subscribe: []string{"b/+/c"}}, ""},
		"everything":       {Settings{URL: "nats://h", Publish: []string{"#"}}, `doors.nats.publish: "#" must begin with the name of a level`},
		"a wide level":     {Settings{URL: "nats://h", Publish: []string{"+/a"}}, `doors.nats.publish: "+/a" must begin with the name of a level`},
		"the bridge's":     {Settings{URL: "nats://h", Subscribe: []string{"aibridge/#"}}, `doors.nats.subscribe: "aibridge/#" reaches topics of the bridge's own`},
		"the server's":     {Settings{URL: "nats://h", Publish: []string{"$SYS/#"}}, `doors.nats.publish: "$SYS/#" reaches topics of the bridge's own`},
		"not a filter":     {Settings{URL: "nats://h", Publish: []string{"a/b#"}}, `doors.nats.publish: "a/b#" is not a topic filter`},
		"not NATS's":       {Settings{URL: "nats://h", Publish: []string{"a b/#"}}, `doors.nats.publish: "a b/#" has whitespace, which no NATS subject has`},
		"# in the middle":  {Settings{URL: "nats://h", Publish: []string{"a/#/b"}}, `doors.nats.publish: "a/#/b" is not a topic filter`},
		"twice":            {Settings{URL: "nats://h", Publish: []string{"a/+/c", "a/b/#"}}, `doors.nats.publish: a topic may fit both "a/+/c" and "a/b/#", and its messages would be carried twice`},
		"the parent twice": {Settings{URL: "nats://h", Publish: []string{"a", "a/#"}}, `doors.nats.publish: a topic may fit both "a" and "a/#", and its messages would be carried twice`},
		"beside":           {Settings{URL: "nats://h", Publish: []string{"a/+/c", "a/+/d", "a/b", "a"}}, ""},
		"too many filters": {Settings{URL: "nats://h", Publish: make([]string, 65)}, "doors.nats.publish: 65 filters are more than 64"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			test.settings.Check("aibridge", func(format string, args ...any) { said = append(said, fmt.Errorf(format, args...).Error()) })
			if len(said) == 0 && test.want != "" || len(said) > 0 && said[0] != test.want {
				t.Errorf("%q, not %q", said, test.want)
			}
		})
	}
}

// FuzzTheMapping holds that no two topics are one subject.
func FuzzTheMapping(f *testing.F) {
	for _, topic := range topics {
		f.Add(topic)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if subject, err := subjectOf(text, false); err == nil {
			if back, err := topicOf(subject); err != nil || back != text {
				t.Errorf("the topic %q is %q, and that is %q, %v", text, subject, back, err)
			}
			if strings.Contains(subject, "..") || strings.HasPrefix(subject, ".") || strings.HasSuffix(subject, ".") {
				t.Errorf("the topic %q is %q, which is no subject", text, subject)
			}
		}
		if topic, err := topicOf(text); err == nil {
			if back, err := subjectOf(topic, false); err != nil || back != text {
				t.Errorf("the subject %q is %q, and that is %q, %v", text, topic, back, err)
			}
		}
	})
}
