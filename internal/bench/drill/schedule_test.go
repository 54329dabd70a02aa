package drill

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestASeedDecidesTheSchedule(t *testing.T) {
	one := Schedule(7, Faults(), 3, 30*time.Second)
	if again := Schedule(7, Faults(), 3, 30*time.Second); !reflect.DeepEqual(one, again) {
		t.Error("one seed has two schedules")
	}
	if other := Schedule(8, Faults(), 3, 30*time.Second); reflect.DeepEqual(one, other) {
		t.Error("two seeds have one schedule")
	}
	times := make(map[Fault]int)
	for i, r := range one {
		times[r.Fault]++
		if r.Number != i+1 || r.Hold < 0 || r.Hold > 30*time.Second {
			t.Errorf("round %+v at place %d", r, i+1)
		}
		if (r.Fault == Pause || r.Fault == Partition) && r.Hold < 5*time.Second {
			t.Errorf("%s lasts %v, and nobody notices", r.Fault, r.Hold)
		}
	}
	for _, fault := range Faults() {
		if times[fault] != 3 {
			t.Errorf("%s comes %d times in 3 laps", fault, times[fault])
		}
	}
}

func TestNamesAreChecked(t *testing.T) {
	if _, err := ParseFaults([]string{"kill", "earthquake"}); err == nil {
		t.Error("there is an earthquake")
	}
	if faults, err := ParseFaults(nil); err != nil || len(faults) > 0 { // which is all that can be made
		t.Errorf("no names are %v, %v", faults, err)
	}
	if _, err := ParsePromises([]string{"gold"}); err == nil {
		t.Error("gold is promised")
	}
	if got, err := ParsePromises([]string{"order"}); err != nil || got[0] != InOrder {
		t.Errorf("order is %v, %v", got, err)
	}
}

func TestMessagesAreRead(t *testing.T) {
	for text, want := range map[string]bool{"q1-0 17": true, "q1 0": true, "q1": false, "q1 ": false, "q1 x": false, "q1 -1": false, "q1 99999999999999999999999": false, "": false} {
		if _, _, ok := parseMessage([]byte(text)); ok != want {
			t.Errorf("%q is read: %v", text, ok)
		}
	}
	if stream, number, _ := parseMessage([]byte("q1-0 17")); stream != "q1-0" || number != 17 {
		t.Errorf("read %s %d", stream, number)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	whole := func(change func(*Options)) Options {
		o := Options{Bridge: []string{"bridge"}, NATS: []string{"nats"}, Key: []string{"key"}, Dir: "dir"}
		change(&o)
		return o
	}
	for name, test := range map[string]struct {
		change func(*Options)
		good   bool
	}{
		"nothing special":                     {func(*Options) {}, true},
		"bridges that form their cluster":     {func(o *Options) { o.Formed = true }, true},
		"two bridges that do":                 {func(o *Options) { o.Formed, o.Bridges = true, 2 }, false},
		"bridges that do without a key":       {func(o *Options) { o.Formed, o.Key = true, nil }, false},
		"who leads in servers of bridges":     {func(o *Options) { o.Formed, o.Faults = true, []Fault{Kill, Leader} }, false},
		"a partition between these":           {func(o *Options) { o.Formed, o.Faults = true, []Fault{Partition} }, false},
		"a disk of these":                     {func(o *Options) { o.Formed, o.Faults = true, []Fault{Disk, Majority} }, true},
		"the disk of the only server":         {func(o *Options) { o.Servers, o.Faults = 1, []Fault{Disk} }, false},
		"a mode nobody knows":                 {func(o *Options) { o.Mode = "few" }, false},
		"a pause that is shorter than a look": {func(o *Options) { o.Longest = 1 }, false},
	} {
		o := whole(test.change)
		if err := o.setDefaults(); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	formed := whole(func(o *Options) { o.Formed = true })
	if err := formed.setDefaults(); err != nil || slices.ContainsFunc(formed.Faults, needsNATS) || len(formed.Faults) != len(Faults())-2 {
		t.Errorf("the faults of a cluster that bridges form are %v, %v", formed.Faults, err)
	}
}
