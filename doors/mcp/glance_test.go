package mcp

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
)

// glances are bodies, and whether they are read without the library.
var glances = map[string]bool{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a.b","arguments":{"x":[1,{"y":"}"}],"z":"\\\" \\\\"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x"},"traceparent":"00-1"}}}`: true,
	" { \"id\" : \"a\\\"b\" ,\n\"method\":\"tools/call\",\t\"jsonrpc\":\"2.0\" , \"params\" : { \"arguments\" : [ ] , \"name\" : \"ü\" } } \n":                                                                                                                                                                       true,
	`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"a","arguments":null}}`:                                                                                                                                                                                                                         true,
	`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"a"}}`:                                                                                                                                                                                                                                         true,
	`{"jsonrpc":"2.0","id":1e400,"method":"tools/call","params":{"name":"a"}}`:                                                                                                                                                                                                                                       true,
	`{"jsonrpc":"2.0","id":90071992547409931,"method":"tools/call","params":{}}`:                                                                                                                                                                                                                                     true,
	`{"method":"tools/call"}`: true,
	`{}`:                      true,
	`{"jsonrpc":"2.0","id":-1,"method":"tools/call","params":{"name":"a"}}`:                               false,
	`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"a"}}`:                             false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`:                                          false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`:                                          false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`:                                  false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\u0061"}}`:                           false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","requestState":"s"}}`:             false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}`:    false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"aibridge/depth":2}}}`:   false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":7}}`:                      false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`:                     false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1,"\u0078":2}}}`: false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":"\ud800"}}}`:     false,
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}":             false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}`:                                 false,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}{}`:                              false,
	`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}]`:                              false,
	"\f{}":         false,
	"{}\u00a0":     false,
	`"tools/call"`: false,
	``:             false,
}

func TestAGlanceSeesWhatTheLibraryReads(t *testing.T) {
	for body, usual := range glances {
		if seen := sameAsTheLibrary(t, []byte(body)); seen != usual {
			t.Errorf("%s: %v", body, seen)
		}
	}
}

func FuzzGlance(f *testing.F) {
	for body := range glances {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { sameAsTheLibrary(t, body) })
}

// sameAsTheLibrary reports whether a body is read without the library, and fails if the
// library reads something else.
func sameAsTheLibrary(t *testing.T, body []byte) bool {
	var seen message
	if !seen.glance(body) {
		return false
	}
	var read parts
	if err := json.Unmarshal(body, &read); err != nil {
		t.Errorf("%s: the library has %v", body, err)
	}
	if !reflect.DeepEqual(seen.parts, read) {
		t.Errorf("%s: %+v instead of %+v", body, seen.parts, read)
	}
	return true
}
