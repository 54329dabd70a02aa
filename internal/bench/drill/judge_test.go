package drill

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// people are those who listen in the histories of these tests.
var people = []Listener{
	{Name: "kept", Kept: true}, {Name: "clean"},
	{Name: "one", Kept: true, Group: "team"}, {Name: "other", Kept: true, Group: "team"},
}

// honest is a history in which every promise was kept: a round in which a bridge
// was killed while everybody was at work.
func honest() History {
	var h History
	add := func(list ...Event) {
		for _, e := range list {
			e.At = time.Duration(len(h)) * time.Millisecond
			h = append(h, e)
		}
	}
	connect := func(who string, connection int, node string, kept bool) {
		add(Event{Kind: Opened, Client: who, Connection: connection, Node: node, Kept: kept, Present: kept && connection > 1},
			Event{Kind: Subscribed, Client: who, Connection: connection, Node: node})
	}
	got := func(who string, connection int, stream string, number int) {
		add(Event{Kind: Got, Client: who, Connection: connection, Stream: stream, Number: number})
	}
	// deliver has a message go from its publisher to everybody.
	deliver := func(connection int, qos byte, number int, node string) {
		stream := fmt.Sprint("q", qos)
		add(Event{Kind: Sent, Client: "publisher", Connection: connection, Stream: stream, Number: number, QoS: qos, Node: node})
		for _, who := range []string{"kept", "clean", []string{"one", "other"}[number%2]} {
			got(who, connection, stream, number)
		}
		if qos > 0 {
			add(Event{Kind: Acked, Client: "publisher", Connection: connection, Stream: stream, Number: number, QoS: qos, Node: node})
		}
	}
	everybody := func(connection int, node string) {
		for _, who := range []string{"kept", "clean", "one", "other", "publisher"} {
			connect(who, connection, node, who != "clean")
		}
	}

	everybody(1, "a")
	add(Event{Kind: RoundBegun, Number: 1, Fault: Kill},
		Event{Kind: WillSet, Client: "mourned", ID: "will-1", Kept: true},
		Event{Kind: WillSet, Client: "simple", ID: "will-2"},
		Event{Kind: WillSet, Client: "returning", ID: "will-3", Kept: true})
	for number := 1; number <= 3; number++ {
		for qos := range byte(3) {
			deliver(1, qos, number, "a")
		}
	}
	add(Event{Kind: Asked, Stream: streamCall, ID: "call"}, Event{Kind: Executed, ID: "call"}, Event{Kind: Answered, Stream: streamCall, ID: "call"},
		Event{Kind: Asked, Stream: streamTask, ID: "task"}, Event{Kind: Answered, Stream: streamTask, ID: "task"}, Event{Kind: Executed, ID: "task"},
		Event{Kind: Asked, Stream: streamRegistration, ID: "thing"}, Event{Kind: Answered, Stream: streamRegistration, ID: "thing"},
		Event{Kind: Asked, Stream: streamCall, ID: "cut short"},
		Event{Kind: Sent, Client: "publisher", Connection: 1, Stream: "q1", Number: 4, QoS: 1, Node: "a"})
	got("kept", 1, "q1", 4)
	got("one", 1, "q1", 4)
	add(Event{Kind: Asked, Stream: streamLoop, ID: "loop", Number: 2})
	runStep(add, "loop-step-1")
	runStep(add, "loop-step-2")
	add(Event{Kind: Answered, Stream: streamLoop, ID: "loop", Node: "a"},
		Event{Kind: Asked, Stream: streamApproval, ID: "asked", Number: 1},
		Event{Kind: Wanted, ID: "asked-step-1"},
		Event{Kind: Answered, Stream: streamApproval, ID: "asked", Node: "a", Present: true},
		Event{Kind: Asked, Stream: streamRun, ID: "run", Number: 2},
		Event{Kind: Answered, Stream: streamRun, ID: "run", Node: "a", Present: true})
	runStep(add, "run-step-1")
	add(Event{Kind: FaultBegun, Fault: Kill, Node: "a"})
	for _, who := range []string{"kept", "clean", "one", "other", "publisher", "mourned", "simple"} {
		add(Event{Kind: Closed, Client: who, Connection: 1, Node: "a"})
	}
	add(Event{Kind: WillDue, Client: "mourned", ID: "will-1"}, Event{Kind: WillDue, Client: "simple", ID: "will-2"})
	everybody(2, "b")
	add(Event{Kind: GaveUp, Node: "a"})
	add(Event{Kind: FaultEnded, Fault: Kill})
	deliver(2, 1, 4, "b") // again, as it was not acknowledged
	for qos := range byte(3) {
		deliver(2, qos, 5, "b")
	}
	add(Event{Kind: Moved, Client: "kept", Node: "c", Connection: 3, Code: codeTakenOver},
		Event{Kind: WillGot, ID: "will-1"}, Event{Kind: WillGot, ID: "will-2"},
		Event{Kind: Answered, Stream: streamCall, ID: "cut short", Code: "4012"},
		Event{Kind: Agreed, ID: "asked"},
		Event{Kind: Executed, ID: "asked-step-1"}, Event{Kind: Heard, ID: "asked-step-1"},
		Event{Kind: Decided, ID: "asked", Node: "b"}, Event{Kind: Done, ID: "asked", Node: "c", Code: stateSucceeded},
		Event{Kind: Wanted, ID: "run-step-2"}, Event{Kind: Executed, ID: "run-step-2"}, Event{Kind: Heard, ID: "run-step-2", Code: "4012"},
		Event{Kind: Done, ID: "run", Node: "b", Code: "Completed"},
		Event{Kind: LoadEnded},
		Event{Kind: Retained, Node: "b", Stream: "q1", Number: 5},
		Event{Kind: Stored, Node: "b", ID: "thing"}, Event{Kind: Stored, Node: "b", ID: "task"},
		Event{Kind: Ended, ID: "task", Code: stateSucceeded})
	for range falseProbes - 1 {
		add(Event{Kind: Probed, Node: "b", Code: "5001"})
	}
	add(Event{Kind: Probed, Node: "b"}, Event{Kind: Settled})
	return h
}

// runStep is a step of a model's work that went well.
func runStep(add func(...Event), id string) {
	add(Event{Kind: Wanted, ID: id}, Event{Kind: Executed, ID: id}, Event{Kind: Heard, ID: id})
}

func TestAnHonestHistoryHasNoBreach(t *testing.T) {
	j := Judge(honest(), people)
	if len(j.Breaches) != 0 {
		t.Errorf("found %v", j.Breaches)
	}
	want := Tally{
		Round: 1, Fault: Kill, Node: "a", Rounds: 1, Sent: 9, Acknowledged: 9, Repeated: 2, SentQoS0: 4,
		Calls: 3, Succeeded: 2, Unknown: 1, Moves: 1, WillsDue: 2, GaveUp: 1,
		Works: 3, WorksDone: 3, Elsewhere: 1, Steps: 5, StepsUnknown: 1,
	}
	got := j.Rounds[0]
	if got.Silence <= 0 || got.SilenceTypical <= 0 || got.Recovery <= 0 {
		t.Errorf("times are missing: %+v", got)
	}
	got.Silence, got.SilenceTypical, got.Recovery = 0, 0, 0
	if got != want {
		t.Errorf("counts\n %+v, want\n %+v", got, want)
	}
}

// TestWhatIsOwedIsFoundInTheLatestRound judges a round without those before.
func TestWhatIsOwedIsFoundInTheLatestRound(t *testing.T) {
	h := append(honest(), Event{Kind: RoundBegun, Number: 2, Fault: Pause})
	if n := len(h.since(2)); n >= len(h)/2 {
		t.Errorf("%d of %d events are left", n, len(h))
	}
	sent := Event{Kind: Sent, Client: "publisher", Connection: 2, Stream: "q1", Number: 6, QoS: 1, Node: "b"}
	acked := sent
	acked.Kind = Acked
	h = append(h, sent, acked, Event{Kind: Got, Client: "clean", Connection: 2, Stream: "q1", Number: 6}, Event{Kind: Got, Client: "one", Connection: 2, Stream: "q1", Number: 6})
	owed := Judge(h.since(2), people).Breaches
	if len(owed) != 1 || owed[0].Promise != Acknowledged || owed[0].Round != 2 {
		t.Errorf("owed is %v", owed)
	}
	h = append(h, Event{Kind: Got, Client: "kept", Connection: 2, Stream: "q1", Number: 6})
	if owed := Judge(h.since(2), people).Breaches; len(owed) != 0 {
		t.Errorf("still owed is %v", owed)
	}
}

// at is the index of the n-th event, from 0, that is as the example: of its kind,
// and with what it names.
func at(t testing.TB, h History, n int, like Event) int {
	t.Helper()
	for i, e := range h {
		if e.Kind == like.Kind && (like.Client == "" || e.Client == like.Client) && (like.Stream == "" || e.Stream == like.Stream) &&
			(like.Number == 0 || e.Number == like.Number) && (like.ID == "" || e.ID == like.ID) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	t.Fatalf("no such event: %+v", like)
	return 0
}

// TestARepeatedMessageMayComeBehindALaterOne has a listener begin between two messages
// that are sent once more, and tells it from one that is late without that.
func TestARepeatedMessageMayComeBehindALaterOne(t *testing.T) {
	sent := func(number, connection int) Event {
		return Event{Kind: Sent, Client: "p", Stream: "q1", Number: number, QoS: 1, Connection: connection}
	}
	got := func(number int) Event {
		return Event{Kind: Got, Client: "clean", Stream: "q1", Number: number, QoS: 1, Connection: 1}
	}
	begin := []Event{{Kind: RoundBegun, Number: 1, Fault: Rolling}, {Kind: Opened, Client: "clean", Connection: 1}, sent(1, 1), {Kind: Subscribed, Client: "clean", Connection: 1}, sent(2, 1), got(2)}
	for name, test := range map[string]struct {
		then  []Event
		fault bool
	}{
		"sent again":     {[]Event{sent(1, 2), sent(2, 2), got(1), got(2)}, false},
		"not sent again": {[]Event{got(1)}, true},
		"sent later":     {[]Event{got(1), sent(1, 2)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := append(slices.Clone(begin), test.then...)
			found := slices.ContainsFunc(Judge(h, []Listener{{Name: "clean"}}).Breaches, func(b Breach) bool { return b.Promise == InOrder })
			if found != test.fault {
				t.Errorf("out of order is %v", found)
			}
		})
	}
}

// TestEveryDefectIsFound puts one defect after the other into an honest history.
func TestEveryDefectIsFound(t *testing.T) {
	type change = func(testing.TB, History) History
	drop := func(n int, like Event) change {
		return func(t testing.TB, h History) History {
			i := at(t, h, n, like)
			return slices.Delete(h, i, i+1)
		}
	}
	repeat := func(n int, like Event) change {
		return func(t testing.TB, h History) History {
			i := at(t, h, n, like)
			return slices.Insert(h, i+1, h[i])
		}
	}
	edit := func(like Event, do func(*Event)) change {
		return func(t testing.TB, h History) History {
			do(&h[at(t, h, 0, like)])
			return h
		}
	}
	swap := func(a, b Event) change {
		return func(t testing.TB, h History) History {
			i, j := at(t, h, 0, a), at(t, h, 0, b)
			h[i].Number, h[j].Number = h[j].Number, h[i].Number
			return h
		}
	}
	for name, test := range map[string]struct {
		change  change
		promise Promise
		count   func(Tally) int // of the report, nil for none
	}{
		"a kept session misses QoS 1":       {drop(0, Event{Kind: Got, Client: "kept", Stream: "q1", Number: 2}), Acknowledged, func(t Tally) int { return t.Lost }},
		"a kept session misses QoS 2":       {drop(0, Event{Kind: Got, Client: "kept", Stream: "q2", Number: 1}), Acknowledged, func(t Tally) int { return t.Lost }},
		"a clean session misses QoS 1":      {drop(0, Event{Kind: Got, Client: "clean", Stream: "q1", Number: 5}), Acknowledged, func(t Tally) int { return t.Lost }},
		"a clean session misses QoS 0":      {drop(0, Event{Kind: Got, Client: "clean", Stream: "q0", Number: 5}), QoS0, func(t Tally) int { return t.LostQoS0 }},
		"a group misses QoS 1":              {drop(0, Event{Kind: Got, Client: "one", Stream: "q1", Number: 2}), SharedOnce, func(t Tally) int { return t.Lost }},
		"a kept session gets QoS 2 twice":   {repeat(0, Event{Kind: Got, Client: "kept", Stream: "q2", Number: 3}), ExactlyOnce, func(t Tally) int { return t.Doubled }},
		"a clean session gets QoS 2 twice":  {repeat(0, Event{Kind: Got, Client: "clean", Stream: "q2", Number: 3}), ExactlyOnce, func(t Tally) int { return t.Doubled }},
		"a group gets QoS 2 twice":          {repeat(0, Event{Kind: Got, Client: "other", Stream: "q2", Number: 1}), ExactlyOnce, func(t Tally) int { return t.Doubled }},
		"QoS 1 comes twice without a break": {repeat(0, Event{Kind: Got, Client: "kept", Stream: "q1", Number: 3}), NoNeedless, func(t Tally) int { return t.Doubled }},
		"QoS 0 comes twice":                 {repeat(0, Event{Kind: Got, Client: "kept", Stream: "q0", Number: 3}), NoNeedless, func(t Tally) int { return t.Doubled }},
		"QoS 1 comes more often than breaks say": {func(t testing.TB, h History) History {
			more := repeat(1, Event{Kind: Got, Client: "kept", Stream: "q1", Number: 4})
			return more(t, more(t, h))
		}, NoNeedless, func(t Tally) int { return t.Doubled }},
		"two messages change places":       {swap(Event{Kind: Got, Client: "kept", Stream: "q2", Number: 1}, Event{Kind: Got, Client: "kept", Stream: "q2", Number: 2}), InOrder, func(t Tally) int { return t.Disordered }},
		"a message comes that nobody sent": {edit(Event{Kind: Got, Client: "kept", Stream: "q0", Number: 2}, func(e *Event) { e.Number = 77 }), NoNeedless, nil},
		"a message comes before it was sent": {func(t testing.TB, h History) History {
			i, j := at(t, h, 0, Event{Kind: Sent, Stream: "q0", Number: 1}), at(t, h, 0, Event{Kind: Got, Client: "kept", Stream: "q0", Number: 1})
			h[i], h[j] = h[j], h[i]
			return h
		}, NoNeedless, nil},
		"a session is not found again": {func(t testing.TB, h History) History {
			h[at(t, h, 1, Event{Kind: Opened, Client: "kept"})].Present = false
			return h
		}, KeptSessions, func(t Tally) int { return t.SessionsLost }},
		"an old connection is not taken over": {edit(Event{Kind: Moved}, func(e *Event) { e.Code = "nothing" }), OneOwner, nil},
		"a call runs twice":                   {repeat(0, Event{Kind: Executed, ID: "call"}), AtMostOnce, func(t Tally) int { return t.Twice }},
		"a call succeeds and never ran":       {drop(0, Event{Kind: Executed, ID: "call"}), AtMostOnce, nil},
		"a call is refused and ran":           {edit(Event{Kind: Answered, ID: "call"}, func(e *Event) { e.Code = "3005" }), AtMostOnce, nil},
		"a call runs that nobody asked for":   {edit(Event{Kind: Executed, ID: "call"}, func(e *Event) { e.ID = "x" }), AtMostOnce, nil},
		"a call is never answered":            {drop(0, Event{Kind: Answered, ID: "cut short"}), AlwaysAnswer, nil},
		"a task runs twice":                   {repeat(0, Event{Kind: Executed, ID: "task"}), AtMostOnce, func(t Tally) int { return t.Twice }},
		"a task succeeds and never ran":       {drop(0, Event{Kind: Executed, ID: "task"}), AtMostOnce, nil},
		"a message of QoS 2 that its publisher repeats elsewhere comes again": {func(t testing.TB, h History) History {
			again := h[at(t, h, 0, Event{Kind: Sent, Stream: "q2", Number: 5})]
			again.Node = "c"
			got := h[at(t, h, 0, Event{Kind: Got, Client: "kept", Stream: "q2", Number: 5})]
			return slices.Insert(h, at(t, h, 0, Event{Kind: LoadEnded}), again, got)
		}, RepeatsOnce, func(t Tally) int { return t.Doubled }},
		"a step of a loop runs twice":            {repeat(0, Event{Kind: Executed, ID: "loop-step-1"}), LoopsOnce, func(t Tally) int { return t.Twice }},
		"a step whose end is unknown runs twice": {repeat(0, Event{Kind: Executed, ID: "run-step-2"}), AtMostOnce, func(t Tally) int { return t.Twice }},
		"a step succeeds and never ran":          {drop(0, Event{Kind: Executed, ID: "run-step-1"}), AtMostOnce, nil},
		"a step is refused and ran":              {edit(Event{Kind: Heard, ID: "loop-step-2"}, func(e *Event) { e.Code = "3005" }), AtMostOnce, nil},
		"a step runs that no model wanted":       {drop(0, Event{Kind: Wanted, ID: "loop-step-2"}), AtMostOnce, nil},
		"an approved call runs twice":            {repeat(0, Event{Kind: Executed, ID: "asked-step-1"}), AtMostOnce, func(t Tally) int { return t.Twice }},
		"a call runs that nobody agreed to":      {drop(0, Event{Kind: Agreed}), Approved, nil},
		"a call runs before somebody agreed": {func(t testing.TB, h History) History {
			i, j := at(t, h, 0, Event{Kind: Agreed}), at(t, h, 0, Event{Kind: Executed, ID: "asked-step-1"})
			h[i], h[j] = h[j], h[i]
			return h
		}, Approved, nil},
		"nobody can agree to a call":           {drop(0, Event{Kind: Decided}), WorkEnds, nil},
		"an approved call never ends":          {drop(0, Event{Kind: Done, ID: "asked"}), WorkEnds, nil},
		"an approved call fails":               {edit(Event{Kind: Done, ID: "asked"}, func(e *Event) { e.Code = "failed" }), WorkEnds, nil},
		"a run never ends":                     {drop(0, Event{Kind: Done, ID: "run"}), WorkEnds, nil},
		"a run fails":                          {edit(Event{Kind: Done, ID: "run"}, func(e *Event) { e.Code = "Failed" }), WorkEnds, nil},
		"a run has no id":                      {edit(Event{Kind: Answered, ID: "run"}, func(e *Event) { e.Present = false }), WorkEnds, nil},
		"a run ends without a step":            {drop(0, Event{Kind: Heard, ID: "run-step-1"}), WorkEnds, nil},
		"a loop is never answered":             {drop(0, Event{Kind: Answered, ID: "loop"}), AlwaysAnswer, nil},
		"a task runs for ever":                 {edit(Event{Kind: Ended}, func(e *Event) { e.Code = stateRunning }), TasksEnd, nil},
		"a registration is not there":          {edit(Event{Kind: Stored, ID: "thing"}, func(e *Event) { e.Code = "3001" }), Registered, func(t Tally) int { return t.StoredLost }},
		"a retained message is old":            {edit(Event{Kind: Retained}, func(e *Event) { e.Number = 4 }), RetainedLast, func(t Tally) int { return t.StoredLost }},
		"a will is missing":                    {drop(0, Event{Kind: WillGot, ID: "will-1"}), WillsOnce, func(t Tally) int { return t.WillsMissing }},
		"a will comes twice":                   {repeat(0, Event{Kind: WillGot, ID: "will-1"}), WillsOnce, func(t Tally) int { return t.WillsUnwanted }},
		"a will of a clean session is missing": {drop(0, Event{Kind: WillGot, ID: "will-2"}), WillsOfClean, func(t Tally) int { return t.WillsMissing }},
		"a will of who came back":              {edit(Event{Kind: WillGot, ID: "will-1"}, func(e *Event) { e.ID = "will-3" }), WillsWithheld, func(t Tally) int { return t.WillsUnwanted }},
		"readiness is untrue": {func(t testing.TB, h History) History {
			h[at(t, h, falseProbes-1, Event{Kind: Probed})].Code = "5001"
			return h
		},
			TrueReadiness, func(t Tally) int { return t.FalseReadiness }},
		"service does not return": {edit(Event{Kind: Settled}, func(e *Event) { e.Kind, e.Code = Unsettled, "never came" }), ServiceBack, nil},
		"a frozen bridge acknowledges what nobody has": {func(t testing.TB, h History) History {
			h[at(t, h, 0, Event{Kind: RoundBegun})].Fault = Pause
			sent := Event{Kind: Sent, Client: "publisher", Connection: 1, Stream: "q1", Number: 9, QoS: 1, Node: "a"}
			acked := sent
			acked.Kind = Acked
			return slices.Insert(h, at(t, h, 0, Event{Kind: FaultBegun})+1, sent, acked)
		}, Frozen, func(t Tally) int { return t.Lost }},
	} {
		t.Run(name, func(t *testing.T) {
			j := Judge(test.change(t, honest()), people)
			found := slices.ContainsFunc(j.Breaches, func(b Breach) bool { return b.Promise == test.promise })
			if !found {
				t.Errorf("%s was not found broken, but %v", test.promise, j.Breaches)
			}
			if test.count != nil && test.count(j.Rounds[0]) == 0 {
				t.Errorf("the report does not count it: %+v", j.Rounds[0])
			}
		})
	}
}

// TestWhatNobodyPromisedIsNoBreach changes honest histories in ways that are
// nobody's fault.
func TestWhatNobodyPromisedIsNoBreach(t *testing.T) {
	for name, change := range map[string]func(History) History{
		"a message that was not acknowledged is lost": func(h History) History {
			return slices.DeleteFunc(h, func(e Event) bool {
				return e.Stream == "q1" && e.Number == 5 && e.Kind != Sent && e.Kind != Retained
			})
		},
		"a clean session misses what came while it was away": func(h History) History {
			i := at(t, h, 0, Event{Kind: Got, Client: "clean", Stream: "q1", Number: 1})
			return slices.Delete(h, i, i+1)
		},
		"QoS 0 is lost with a connection": func(h History) History {
			i := at(t, h, 0, Event{Kind: Got, Client: "kept", Stream: "q0", Number: 1})
			return slices.Delete(h, i, i+1)
		},
		"a clean session gets QoS 2 again in its next life": func(h History) History {
			again := h[at(t, h, 0, Event{Kind: Got, Client: "clean", Stream: "q2", Number: 3})]
			again.Connection = 2
			return slices.Insert(h, at(t, h, 0, Event{Kind: FaultEnded}), again)
		},
		"a client that moves gave its old connection up": func(h History) History {
			h[at(t, h, 0, Event{Kind: Moved})].Code = codeImpatient
			return h
		},
		"a loop whose bridge was killed is unknown": func(h History) History {
			h[at(t, h, 0, Event{Kind: Answered, ID: "loop"})].Code = "4012"
			i := at(t, h, 0, Event{Kind: Heard, ID: "loop-step-2"})
			return slices.Delete(h, i, i+1)
		},
		"a step is refused, and runs when the run goes on elsewhere": func(h History) History {
			return slices.Insert(h, at(t, h, 0, Event{Kind: Executed, ID: "run-step-1"}), Event{Kind: Heard, ID: "run-step-1", Code: "3005"})
		},
		"a step whose end was unknown is found to have run": func(h History) History {
			return slices.Insert(h, at(t, h, 0, Event{Kind: Executed, ID: "run-step-1"})+1, Event{Kind: Heard, ID: "run-step-1", Code: "4012"})
		},
		"a probe is not answered": func(h History) History {
			return append(h, Event{Kind: Asked, Stream: streamProbe, ID: "p"}, Event{Kind: Executed, ID: "p"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if j := Judge(change(honest()), people); len(j.Breaches) > 0 {
				t.Errorf("found %v", j.Breaches)
			}
		})
	}
}

// TestAnyLossOrRepeatIsFound takes any delivery of an acknowledged message away
// from any history, or repeats any of QoS 2.
func TestAnyLossOrRepeatIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h History
		add := func(e Event) { h = append(h, e) }
		add(Event{Kind: Opened, Client: "kept", Connection: 1, Kept: true})
		add(Event{Kind: Subscribed, Client: "kept", Connection: 1})
		add(Event{Kind: RoundBegun, Number: 1, Fault: Kill})
		var deliveries []int
		connection := 1
		for number := 1; number <= rapid.IntRange(1, 20).Draw(t, "messages"); number++ {
			add(Event{Kind: Sent, Client: "p", Stream: "s", Number: number, QoS: 2})
			if rapid.Bool().Draw(t, "break") {
				add(Event{Kind: Closed, Client: "kept", Connection: connection})
				connection++
				add(Event{Kind: Opened, Client: "kept", Connection: connection, Kept: true, Present: true})
				add(Event{Kind: Subscribed, Client: "kept", Connection: connection})
			}
			deliveries = append(deliveries, len(h))
			add(Event{Kind: Got, Client: "kept", Connection: connection, Stream: "s", Number: number})
			add(Event{Kind: Acked, Client: "p", Stream: "s", Number: number, QoS: 2})
		}
		listeners := []Listener{{Name: "kept", Kept: true}}
		if j := Judge(h, listeners); len(j.Breaches) > 0 {
			t.Fatalf("an honest history has %v", j.Breaches)
		}
		victim := rapid.SampledFrom(deliveries).Draw(t, "victim")
		lost := slices.Delete(slices.Clone(h), victim, victim+1)
		if j := Judge(lost, listeners); len(j.Breaches) != 1 || j.Breaches[0].Promise != Acknowledged || j.Rounds[0].Lost != 1 {
			t.Fatalf("a loss shows as %v", j.Breaches)
		}
		later := rapid.IntRange(victim+1, len(h)).Draw(t, "later")
		doubled := slices.Insert(slices.Clone(h), later, h[victim])
		if j := Judge(doubled, listeners); len(j.Breaches) != 1 || j.Breaches[0].Promise != ExactlyOnce || j.Rounds[0].Doubled != 1 {
			t.Fatalf("a repeat shows as %v", j.Breaches)
		}
	})
}
