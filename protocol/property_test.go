package protocol_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/protocol"
)

// anyJSON draws a JSON value; whole numbers are int64, as details have them.
func anyJSON(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Just[any](nil),
		rapid.Float64Range(-1e9, 1e9).Filter(func(f float64) bool { return f != float64(int64(f)) }).AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	return rapid.OneOf(append(scalars,
		rapid.SliceOfN(anyJSON(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), anyJSON(depth-1), 0, 4).AsAny())...)
}

func rawObject(t *rapid.T, label string) []byte {
	raw, err := json.Marshal(rapid.MapOfN(rapid.String(), anyJSON(3), 0, 24).Draw(t, label))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var (
	anyLine     = rapid.StringOfN(rapid.RuneFrom([]rune("aZ09-_.:/+#$\"\\ é界😀")), 1, 64, -1)
	anyOptional = rapid.OneOf(rapid.Just(""), anyLine)
	anyMoment   = rapid.Int64Range(0, 253402300799999)
)

func anyMetadata(t *rapid.T) protocol.Metadata {
	return protocol.Metadata{SenderID: anyOptional.Draw(t, "sender"), TraceID: anyOptional.Draw(t, "trace")}
}

func TestRequestSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &protocol.Request{
			Version: protocol.Version, ID: rapid.StringN(1, 64, -1).Draw(t, "id"), Timestamp: anyMoment.Draw(t, "timestamp"),
			Command: anyLine.Draw(t, "command"), Params: rawObject(t, "params"), Metadata: anyMetadata(t),
		}
		want.Metadata.Priority = rapid.SampledFrom([]protocol.Priority{protocol.Low, protocol.Medium, protocol.High}).Draw(t, "priority")
		want.Metadata.Timeout = time.Duration(rapid.Int64Range(1, 600000).Draw(t, "timeout")) * time.Millisecond
		want.Metadata.Events = rapid.Bool().Draw(t, "events")
		if rapid.Bool().Draw(t, "extended") {
			want.Extension = rawObject(t, "extension")
		}
		got, err := protocol.DecodeRequest(want.Append(nil), protocol.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestResponseSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &protocol.Response{
			Version: protocol.Version, ID: rapid.StringN(1, 64, -1).Draw(t, "id"), Timestamp: anyMoment.Draw(t, "timestamp"),
			Result: rawObject(t, "result"), Metadata: anyMetadata(t),
		}
		if rapid.Bool().Draw(t, "failed") {
			want.Err = &protocol.Error{
				Code: rapid.SampledFrom(protocol.Codes()).Draw(t, "code"), Message: rapid.StringN(1, -1, -1).Draw(t, "message"),
				Details: rapid.MapOfN(rapid.String(), anyJSON(2), 1, 4).Draw(t, "details"),
			}
		}
		want.Metadata.Warnings = rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "warnings")
		got, err := protocol.DecodeResponse(want.Append(nil), protocol.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v %+v\nwant %+v %+v", got, got.Err, want, want.Err)
		}
	})
}

func TestEventSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data, err := json.Marshal(anyJSON(3).Filter(func(v any) bool { return v != nil }).Draw(t, "data"))
		if err != nil {
			t.Fatal(err)
		}
		want := &protocol.Event{
			Version: protocol.Version, ID: rapid.StringN(1, 64, -1).Draw(t, "id"), Timestamp: anyMoment.Draw(t, "timestamp"),
			Name: anyLine.Draw(t, "name"), Seq: uint64(rapid.Int64Range(0, 1<<53).Draw(t, "seq")), Data: data, Metadata: anyMetadata(t),
		}
		got, err := protocol.DecodeEvent(want.Append(nil), protocol.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestEveryCutOfARequestIsRefusedWithItsID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &protocol.Request{ID: "7", Timestamp: 1, Command: "a.b", Params: rawObject(t, "params"), Metadata: anyMetadata(t)}
		data := r.Append(nil)
		cut := rapid.IntRange(len(`{"version":"0.6.3","id":"7"`), len(data)-1).Draw(t, "cut")
		got, err := protocol.DecodeRequest(data[:cut], protocol.Limits{})
		if err == nil || got.ID != "7" {
			t.Fatalf("%s: got %+v, %v", data[:cut], got, err)
		}
	})
}
