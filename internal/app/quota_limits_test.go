package app

import (
	"testing"

	"github.com/aibridge/aibridge/security/quota"
)

func TestWhatIsNotSetHasItsDefaultAndSpacesAndAdministratorsHaveNone(t *testing.T) {
	d := defaultQuota
	everything := quota.Limits{Requests: d.Requests, Refusals: d.Refusals, Messages: d.Messages, Bytes: d.Bytes, Connections: d.Connections, Retained: d.Retained, RetainedBytes: d.RetainedBytes, Sessions: d.Sessions}
	if got := (Quota{}).limits(defaultQuota); got != everything || min(d.Requests, d.Refusals, d.Messages, d.Bytes, d.Connections, d.Retained, d.RetainedBytes, d.Sessions) <= 0 {
		t.Errorf("a principal: %+v", got)
	}
	if got := (Quota{}).limits(Quota{}); got != (quota.Limits{}) {
		t.Errorf("a space, or who may do everything: %+v", got)
	}
	set := Quota{Requests: 5, Messages: -1, Bytes: 7}
	if got := set.limits(defaultQuota); got != (quota.Limits{Requests: 5, Refusals: d.Refusals, Bytes: 7, Connections: d.Connections, Retained: d.Retained, RetainedBytes: d.RetainedBytes, Sessions: d.Sessions}) {
		t.Errorf("a principal for which something is set: %+v", got)
	}
	if got := set.limits(Quota{}); got != (quota.Limits{Requests: 5, Bytes: 7}) {
		t.Errorf("a space for which something is set: %+v", got)
	}
}
