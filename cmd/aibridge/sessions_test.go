package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

// manySessions answers session.list as a bridge with so many sessions would.
func manySessions(total int, asked *[]string) caller {
	return func(_ context.Context, command string, params map[string]any) (json.RawMessage, error) {
		*asked = append(*asked, fmt.Sprint(command, params["limit"], params["cursor"]))
		from := 0
		if cursor, ok := params["cursor"].(string); ok {
			if _, err := fmt.Sscan(cursor, &from); err != nil {
				return nil, err
			}
		}
		to := min(from+params["limit"].(int), total)
		page := sessionList{Total: total}
		for i := from; i < to; i++ {
			page.Sessions = append(page.Sessions, json.RawMessage(fmt.Sprintf(`{"client_id":"%d"}`, i)))
		}
		if to < total {
			page.NextCursor = fmt.Sprint(to)
		}
		return json.Marshal(page)
	}
}

func TestSessionsAreListedPageByPage(t *testing.T) {
	for _, test := range []struct{ total, most, shown, pages int }{
		{0, 100, 0, 1}, {5, 100, 5, 1}, {100, 100, 100, 1}, {500, 100, 100, 1},
		{2500, 0, 2500, 3}, {2000, 0, 2000, 2}, {2500, 1500, 1500, 2}, {1200, 5000, 1200, 2},
	} {
		var asked []string
		result, err := listSessions(t.Context(), manySessions(test.total, &asked), map[string]any{}, test.most)
		if err != nil {
			t.Fatal(err)
		}
		var got sessionList
		if err := json.Unmarshal(result, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Sessions) != test.shown || got.Total != test.total || len(asked) != test.pages || got.Sessions == nil {
			t.Errorf("%+v: %d of %d sessions in %d pages %v", test, len(got.Sessions), got.Total, len(asked), asked)
		}
		if more := test.shown < test.total; more != (got.NextCursor != "") {
			t.Errorf("%+v: next_cursor = %q", test, got.NextCursor)
		}
		for i, s := range got.Sessions {
			if string(s) != fmt.Sprintf(`{"client_id":"%d"}`, i) {
				t.Fatalf("%+v: session %d is %s", test, i, s)
			}
		}
	}
	no := errors.New("no")
	_, err := listSessions(t.Context(), func(context.Context, string, map[string]any) (json.RawMessage, error) { return nil, no }, map[string]any{}, 0)
	if !errors.Is(err, no) {
		t.Errorf("error = %v", err)
	}
}
