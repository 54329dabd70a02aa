package app

import (
	"testing"

	"github.com/aibridge/aibridge/security/quota"
)

func TestWhatIsNotSetHasItsDefaultAndSpacesAndAdministratorsHaveNone(t *testing.T) {
	a := quota.Limits{Requests: 2000, Messages: 20_000, Bytes: 64 << 20, Connections: 1000, Retained: 10_000}
	if got := (Quota{}).limits(defaultQuota); got != a {
		t.Errorf("a principal: %+v", got)
	}
	if got := (Quota{}).limits(Quota{}); got != (quota.Limits{}) {
		t.Errorf("a space, or who may do everything: %+v", got)
	}
	set := Quota{Requests: 5, Messages: -1, Bytes: 7}
	if got := set.limits(defaultQuota); got != (quota.Limits{Requests: 5, Bytes: 7, Connections: 1000, Retained: 10_000}) {
		t.Errorf("a principal for which something is set: %+v", got)
	}
	if got := set.limits(Quota{}); got != (quota.Limits{Requests: 5, Bytes: 7}) {
		t.Errorf("a space for which something is set: %+v", got)
	}
}
