package bench

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHistogramQuantilesAreClose(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h, half histogram
	var all []int64
	for i := range 20_000 {
		n := int64(random.ExpFloat64() * 1e6)
		all = append(all, n)
		if i%2 == 0 {
			h.add(n)
		} else {
			half.add(n)
		}
	}
	h.merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.99, 1} {
		exact := all[int(q*float64(len(all)-1))]
		got := int64(h.quantile(q))
		if got < exact || float64(got) > float64(exact)*(1+1.0/64)+1 {
			t.Errorf("quantile %v = %d, exactly %d", q, got, exact)
		}
	}
	if (&histogram{}).quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	h.add(-5)
	h.add(1 << 62) // somewhere, but not out of range
}

func TestBucketsMeet(t *testing.T) {
	t.Parallel()
	for n := uint64(1); n < 1<<40; n += 1 + n/100 {
		b := bucketOf(n)
		if n >= boundOf(b) || b > 0 && n < boundOf(b-1) {
			t.Fatalf("%d is in bucket %d, which ends at %d", n, b, boundOf(b))
		}
	}
}

func TestStreamKnowsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var s stream
	for _, n := range []uint64{0, 1, 2, 5, 3, 5, 200} {
		s.take(n)
	}
	if s.distinct != 6 || s.duplicates != 1 || s.disordered != 1 {
		t.Errorf("%+v", s)
	}
	if s.missing() != 195 { // 4, 6 to 199
		t.Errorf("%d missing", s.missing())
	}
	if d := []delivery{s.take(4), s.take(4), s.take(1 << 60)}; !slices.Equal(d, []delivery{fresh, repeated, garbled}) {
		t.Errorf("a fresh one, the same again and a garbled one are %d", d)
	}
}

func TestPublishTemplateIsWhatComesBack(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{4, 5} {
		for qos := range byte(3) {
			payload := bytes.Repeat([]byte("p"), 300)
			tpl := publishTemplate(version, "a/b", qos, nil, payload)
			if qos > 0 {
				tpl.setID(0x1234)
			}
			copy(tpl.packet[tpl.payload:], "first")
			n, size := readVarint(tpl.packet[1:])
			if size <= 0 || 1+size+n != len(tpl.packet) {
				t.Fatalf("length %d", n)
			}
			p, ok := parsePublish(version, tpl.packet[0], tpl.packet[1+size:])
			if !ok || string(p.topic) != "a/b" || p.qos != qos || len(p.payload) != 300 || !bytes.HasPrefix(p.payload, []byte("first")) {
				t.Errorf("version %d, QoS %d: %+v", version, qos, p)
			}
			if qos > 0 && p.id != 0x1234 {
				t.Errorf("packet id %x", p.id)
			}
		}
	}
}

func TestReceiveMaximumIsFoundAmongProperties(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		connack []byte
		want    int
	}{
		"alone":          {[]byte{0, 0, 3, 0x21, 0, 20}, 20},
		"behind others":  {[]byte{0, 0, 15, 0x27, 0, 0, 1, 0, 0x12, 0, 2, 'i', 'd', 0x25, 1, 0x21, 1, 0}, 256},
		"not said":       {[]byte{0, 0, 2, 0x25, 1}, 65535},
		"no properties":  {[]byte{0, 0, 0}, 65535},
		"cut off":        {[]byte{0, 0, 3, 0x21, 0}, 65535},
		"unknown before": {[]byte{0, 0, 5, 0x7F, 0, 0x21, 0, 20}, 65535},
		"MQTT 3.1.1":     {[]byte{0, 0}, 65535},
	} {
		if got := receiveMaximumOf(c.connack); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(byte(5), byte(0x32), []byte("\x00\x03a/b\x00\x01\x00payload"))
	f.Add(byte(4), byte(0x30), []byte("\x00\x03a/b"))
	f.Fuzz(func(t *testing.T, version, first byte, body []byte) {
		if p, ok := parsePublish(version, first, body); ok && len(p.topic)+len(p.payload) > len(body) {
			t.Error("more than there was")
		}
		receiveMaximumOf(body)
		acknowledgement(body)
		getHex(body)
	})
}

func TestHexRoundTrip(t *testing.T) {
	t.Parallel()
	var digits [16]byte
	for _, n := range []uint64{0, 1, 0xdeadbeef, 1<<64 - 1} {
		putHex(digits[:], n)
		if got, ok := getHex(digits[:]); !ok || got != n {
			t.Errorf("%x became %s became %x", n, digits, got)
		}
	}
	if _, ok := getHex([]byte("00000000000000g0")); ok {
		t.Error("read a g")
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": len(Scenarios()), "fan-in": 1, "fan-in*": 3, "idle pairs": 2, "*-paced": 4} {
		got, err := Pick(strings.Fields(text)...)
		if err != nil || len(got) != want {
			t.Errorf("%q: %d scenarios, %v", text, len(got), err)
		}
	}
	for _, pattern := range []string{"fan-on", "[", ""} {
		if _, err := Pick("pairs", pattern); err == nil {
			t.Errorf("picked %q", pattern)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	good := Scenario{Name: "x", Shape: Flow, Publishers: 2, Subscribers: 2, Payload: 64, Window: 1}
	peers := []Peer{{Name: "p"}}
	for name, o := range map[string]Options{
		"no brokers":      {Scenarios: []Scenario{good}},
		"hours":           {Peers: peers, Scenarios: []Scenario{good}, Duration: time.Hour},
		"rounds":          {Peers: peers, Scenarios: []Scenario{good}, Rounds: -1},
		"shape":           {Peers: peers, Scenarios: []Scenario{{Name: "x"}}},
		"too many":        {Peers: peers, Scenarios: []Scenario{{Name: "x", Shape: Idle, Subscribers: 1 << 20}}},
		"uneven pairs":    {Peers: peers, Scenarios: []Scenario{{Name: "x", Shape: Flow, Publishers: 2, Subscribers: 1, Pairs: true, Payload: 64, Window: 1}}},
		"small payload":   {Peers: peers, Scenarios: []Scenario{{Name: "x", Shape: Flow, Publishers: 1, Subscribers: 1, Payload: 8, Window: 1}}},
		"small question":  {Peers: peers, Scenarios: []Scenario{{Name: "x", Shape: Ask, Publishers: 1, Payload: 64, Window: 1}}},
		"QoS 2 questions": {Peers: peers, Scenarios: []Scenario{{Name: "x", Shape: Ask, Publishers: 1, Payload: 512, Window: 1, QoS: 2}}},
		"HTTP/2 at pace":  {Peers: peers, Scenarios: []Scenario{{Name: "x", Shape: Ask, Publishers: 1, Payload: 512, Window: 1, Over: OverHTTP2, Rate: 10}}},
		"no window":       {Peers: peers, Scenarios: []Scenario{{Name: "x", Shape: Flow, Publishers: 1, Subscribers: 1, Payload: 64}}},
	} {
		if o.setDefaults() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	o := Options{Peers: peers}
	if err := o.setDefaults(); err != nil || len(o.Scenarios) == 0 {
		t.Errorf("defaults: %v", err)
	}
}

func TestExternalFillsTheCommandLineIn(t *testing.T) {
	t.Parallel()
	p, err := External("x", "serve --mqtt {address} --port={port} --data {dir}/data")
	if err != nil {
		t.Fatal(err)
	}
	argv, err := p.Command("127.0.0.1:1883", "/tmp/d")
	if got := strings.Join(argv, " "); err != nil || got != "serve --mqtt 127.0.0.1:1883 --port=1883 --data /tmp/d/data" {
		t.Errorf("%s %v", got, err)
	}
	for _, line := range []string{"", "serve"} {
		if _, err := External("x", line); err == nil {
			t.Errorf("%q accepted", line)
		}
	}
}

func TestServeRefusesWhatIsNotLoopback(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:1883", "example.org:1883", "10.0.0.1:1883", "1883"} {
		if err := Serve(t.Context(), KindMochi, address, t.TempDir()); err == nil {
			t.Errorf("served on %s", address)
		}
	}
	if err := Serve(t.Context(), "exotic", "127.0.0.1:1", t.TempDir()); err == nil {
		t.Error("served what it does not know")
	}
}

func sampleReport() Report {
	result := func(round int, peer, scenario string, rate float64) Result {
		return Result{Peer: peer, Scenario: scenario, Base: scenario, Round: round, Rate: rate, P50: 100 * time.Microsecond, P99: 2 * time.Millisecond,
			ProcessorPerMillion: 1e6 / rate, Cores: 0.5, LoadCores: 0.25, Memory: 10 << 20, Sent: 100, Received: 100}
	}
	inside := result(1, "ours", "inside", 400)
	inside.Base = "pairs"
	broken := result(2, "ours", "pairs", 0)
	broken.Err, broken.Lost = "stalled", 7
	return Report{Machine: "test machine", Results: []Result{
		result(1, "theirs", "pairs", 100), result(1, "ours", "pairs", 300), inside,
		result(2, "theirs", "pairs", 120), broken,
		result(3, "theirs", "pairs", 80), result(3, "ours", "pairs", 200),
	}}
}

func TestRowsAreMediansAgainstTheFirst(t *testing.T) {
	t.Parallel()
	rows := sampleReport().Rows()
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	theirs, ours, inside := rows[0], rows[1], rows[2]
	if theirs.Rate != 100 || theirs.Ratio != 1 || theirs.Slowest != 80 || theirs.Fastest != 120 || theirs.Rounds != 3 {
		t.Errorf("theirs %+v", theirs)
	}
	if ours.Rate != 250 || ours.Ratio != 2.5 || math.Abs(ours.Processor-5.0/12) > 1e-9 || ours.Rounds != 2 || ours.Lost != 7 || ours.Err != "stalled" || ours.Clean() {
		t.Errorf("ours %+v", ours)
	}
	if inside.Ratio != 4 {
		t.Errorf("inside %+v, which must be compared with pairs", inside)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := sampleReport().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PAIRS\n", "INSIDE (ratios to pairs)", "theirs  100   1.00", "7 lost, stalled", "100µs", "2.00ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
