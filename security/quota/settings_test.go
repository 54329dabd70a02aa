package quota

import "testing"

func TestWhatIsNotSetHasItsDefaultAndSpacesAndAdministratorsHaveNone(t *testing.T) {
	d := defaultBounds
	everything := Limits{Requests: d.Requests, Refusals: d.Refusals, Messages: d.Messages, Bytes: d.Bytes, Connections: d.Connections, Retained: d.Retained, RetainedBytes: d.RetainedBytes, Sessions: d.Sessions}
	if got := (Bounds{}).limits(defaultBounds); got != everything || min(d.Requests, d.Refusals, d.Messages, d.Bytes, d.Connections, d.Retained, d.RetainedBytes, d.Sessions) <= 0 {
		t.Errorf("a principal: %+v", got)
	}
	if got := (Bounds{}).limits(Bounds{}); got != (Limits{}) {
		t.Errorf("a space, or who may do everything: %+v", got)
	}
	set := Bounds{Requests: 5, Messages: -1, Bytes: 7}
	if got := set.limits(defaultBounds); got != (Limits{Requests: 5, Refusals: d.Refusals, Bytes: 7, Connections: d.Connections, Retained: d.Retained, RetainedBytes: d.RetainedBytes, Sessions: d.Sessions}) {
		t.Errorf("a principal for which something is set: %+v", got)
	}
	if got := set.limits(Bounds{}); got != (Limits{Requests: 5, Bytes: 7}) {
		t.Errorf("a space for which something is set: %+v", got)
	}
}
