package conformance

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

func garbageClauses() []clause {
	return []clause{
		{name: "garbage/bytes", where: "docs/protocol.md#what-is-strict-and-what-is-not", says: "bytes that are no envelope do no harm", run: survivesGarbage},
		{name: "garbage/envelopes", where: "docs/protocol.md#what-is-strict-and-what-is-not", says: "envelopes with wrong fields do no harm; if they are answered, then with an error", run: survivesWrongEnvelopes},
		{name: "garbage/pieces", where: "docs/protocol.md#what-is-strict-and-what-is-not", says: "a request that ends in the middle does no harm", run: survivesPieces},
	}
}

// garbage is no envelope, each in its own way.
func garbage() [][]byte {
	all := [][]byte{{}, {0}, {0xff, 0xfe, 0x00}, bytes.Repeat([]byte{0xff}, 70_000)}
	for _, text := range []string{
		"hello", "null", "true", "[]", "{}", "7", `""`, "{", "}", `{"id":`, "\ufeff{}", "NaN", `{"id":NaN}`, "[[[[", `{"a":1,}`,
		strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 20_000), `{"id":"` + strings.Repeat("x", 300_000) + `"}`,
		`{"id":"\ud800"}`, `{"version":"9.9.9","id":"v"}`,
	} {
		all = append(all, []byte(text))
	}
	return all
}

func survivesGarbage(ctx context.Context, s *stage) error {
	for _, payload := range garbage() {
		if err := s.deliver(ctx, payload, ""); err != nil {
			return err
		}
	}
	return s.unharmed(ctx)
}

// unharmed says whether the device works, on the connection that it had.
func (s *stage) unharmed(ctx context.Context) error {
	if err := s.echo(ctx); err != nil {
		return err
	}
	if s.bridge.record.count(s.place, isKind(disconnected)) > 0 {
		return fmt.Errorf("the connection ended")
	}
	return nil
}

func survivesWrongEnvelopes(ctx context.Context, s *stage) error {
	for i, fields := range []string{
		`"command":7,"params":{}`, `"command":"","params":{}`, `"command":null`, `"command":"skill.invoke"`,
		`"command":"skill.invoke","params":null`, `"command":"skill.invoke","params":[]`, `"command":"skill.invoke","params":"x"`,
		`"command":"skill.invoke","params":{}`, `"command":"skill.invoke","params":{"skill_id":7}`,
		`"command":"skill.invoke","params":{"skill_id":"conformance","capability_id":["echo"]}`,
		`"command":"skill.invoke","params":{"skill_id":"conformance","capability_id":"echo","params":[]}`,
		`"command":"skill.invoke","params":{"skill_id":"conformance","capability_id":"echo","params":"x"}`,
		`"command":"task.get","params":[]`, `"command":"task.cancel","params":"x"`,
	} {
		id := fmt.Sprintf("wrong-%d-%s", i, protocol.NewID()[:8])
		payload := fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request",%s,"metadata":{}}`, id, fields)
		if err := s.deliver(ctx, []byte(payload), ""); err != nil {
			return err
		}
		if err := s.echo(ctx); err != nil {
			return fmt.Errorf("after %s: %w", payload, err)
		}
		seen, _ := s.bridge.record.since(s.place)
		for j := range seen {
			if isResponse(id)(&seen[j]) && seen[j].envelope.Response.Err == nil {
				return fmt.Errorf("it answers %s with success: %s", payload, seen[j].payload)
			}
		}
	}
	for _, fields := range []string{
		`{"id":7,"command":"skill.invoke"}`, `{"id":"","command":"skill.invoke"}`, `{"id":null,"command":"task.get"}`, `{"command":"skill.invoke","params":{}}`,
		`{"version":"0.6.3","id":"m","type":"request","command":"skill.invoke","params":{},"metadata":"x"}`,
		`{"version":"0.6.3","id":"m2","type":"request","command":"skill.invoke","params":{},"metadata":{"timeout":"soon","trace_id":5}}`,
		`{"version":"0.6.3","id":"r","type":"response","status":"success","result":{}}`, `{"version":"0.6.3","id":"e","type":"event","event":"task.progress","seq":1,"data":{}}`,
	} {
		if err := s.deliver(ctx, []byte(fields), ""); err != nil {
			return err
		}
	}
	return s.unharmed(ctx)
}

func survivesPieces(ctx context.Context, s *stage) error {
	r := invocation("count", `{}`)
	whole := r.Append(nil)
	before, err := s.count(ctx)
	if err != nil {
		return err
	}
	for n := 1; n < len(whole); n += 7 {
		if err := s.deliver(ctx, whole[:n], ""); err != nil {
			return err
		}
	}
	after, err := s.count(ctx)
	if err != nil {
		return err
	}
	if after != before+1 {
		return fmt.Errorf("pieces of a request were run")
	}
	return s.unharmed(ctx)
}
