package scripted

import (
	"io"
	"net/http"
	"testing"
)

func TestAServerWithoutRepliesRefusesAndEnds(t *testing.T) {
	s := New(t)
	for range 2 {
		answer, err := http.Get(s.URL + "/models")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("it answers %s", answer.Status)
		}
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("it has noted %d requests", n)
	}
}

func TestABridgeThatLooksAtItsModelTakesNoReply(t *testing.T) {
	s := ForBridge(t, JSON(http.StatusOK, `"first"`), JSON(http.StatusOK, `"second"`))
	looked, err := http.Get(s.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = looked.Body.Close()
	answer, err := http.Post(s.URL+"/v1/chat/completions", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); looked.StatusCode != http.StatusNotImplemented || string(said) != `"first"` || len(s.Requests()) != 1 {
		t.Errorf("it lists %s and says %s to the first of %d requests", looked.Status, said, len(s.Requests()))
	}
}
