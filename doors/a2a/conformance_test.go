package a2a

import (
	"flag"
	"testing"

	"github.com/aibridge/aibridge/internal/requirements"
)

var update = flag.Bool("update", false, "write docs/a2a-conformance.md")

// mandatory are the requirements of A2A 1.0 for servers, in words of our own, by the
// section that has them.
var mandatory = [][2]string{
	{"3.1.1-1", "A message is answered with a task or a message"},
	{"3.1.1-2", "A task that has ended takes no more messages: UnsupportedOperation"},
	{"3.1.2-1", "The stream of a message begins with the task, goes on with its updates, and closes when it has ended"},
	{"3.1.4-1", "Only tasks that the caller may see are listed"},
	{"3.1.4-2", "Lists come in pages, by a cursor"},
	{"3.1.4-3", "The tasks whose status changed last come first"},
	{"3.1.4-4", "Artifacts are left out unless they are asked for"},
	{"3.1.4-5", "nextPageToken is always there, and empty on the last page"},
	{"3.1.5-1", "A task that has ended cannot be canceled: TaskNotCancelable"},
	{"3.1.6-1", "A subscription begins with the task as it is"},
	{"3.1.6-2", "It ends with the task"},
	{"3.1.6-3", "There is none to a task that has ended: UnsupportedOperation"},
	{"3.1.7-1", "A push configuration has its webhook told of updates"},
	{"3.1.7-2", "It is kept until the task ends or it is deleted"},
	{"3.1.8-1", "It can be read, and one that there is not is an error"},
	{"3.1.9-1", "All of a task are listed"},
	{"3.1.10-1", "A deleted one is gone, and its webhook hears no more"},
	{"3.1.10-2", "Deleting it again does the same"},
	{"3.1.11-1", "The extended card is for those who are let in"},
	{"3.2.2-1", "Without returnImmediately the answer waits until the task ends or waits for somebody, and has its artifacts"},
	{"3.2.2-2", "With it the answer comes at once"},
	{"3.2.4-1", "No more messages of the history than asked for"},
	{"3.3.2-1", "Requests without a good credential are refused"},
	{"3.3.2-2", "A missing right is an error of authorization"},
	{"3.3.2-3", "What the caller may not see is not told of"},
	{"3.3.2-4", "All params are validated"},
	{"3.3.2-5", "What is not there is a not-found error"},
	{"3.3.2-6", "Errors have a code and a message"},
	{"3.3.4-1", "What the card does not declare is refused as such: push notifications"},
	{"3.3.4-4", "No extension is required of clients, so none is missed"},
	{"3.4.1-1", "A message without a context gets a new one"},
	{"3.4.1-2", "which the answer has"},
	{"3.4.1-3", "The client's context is kept"},
	{"3.4.2-1", "Every task has an id of its own"},
	{"3.4.2-2", "which the answer has"},
	{"3.4.2-3", "A message for a task that there is not: TaskNotFound"},
	{"3.4.3-1", "The context follows from the task"},
	{"3.4.3-2", "A context that is not that of the task is refused"},
	{"3.5.2-1", "Events come in order"},
	{"3.5.2-2", "All streams of a task hear the same in the same order"},
	{"3.5.2-3", "A stream that is closed disturbs no other"},
	{"3.6-1", "Patch numbers of versions do not count"},
	{"3.6.2-1", "Another version is refused: VersionNotSupported"},
	{"3.6.2-2", "No version means 0.3"},
	{"4.3.3-1", "Webhooks are shown the credentials of their configuration"},
	{"4.3.3-2", "Each is told at least once, as far as it can be"},
	{"4.6.3-1", "Extensions that are not known are left aside"},
	{"5.1-1", "Both bindings do the same"},
	{"5.1-2", "with the same errors"},
	{"5.2-1", "The card declares both"},
	{"5.4-1", "Errors have their codes of JSON-RPC"},
	{"5.4-2", "and their statuses of HTTP"},
	{"5.5-1", "Fields are in camelCase"},
	{"5.5-2", "Enums are read by ProtoJSON"},
	{"5.5-3", "and written by name"},
	{"5.6.1-1", "Timestamps are in UTC, with milliseconds"},
	{"5.6.1-2", "They are read as ISO 8601"},
	{"5.6.1-3", "No offset but Z is written"},
	{"5.7-1", "Required fields are required, and required lists have an element"},
	{"5.7-2", "Fields that are not known are left aside"},
	{"7.4-1", "Every request is authenticated"},
	{"7.6.1-1", "A task that waits for an approval is AUTH_REQUIRED"},
	{"7.6.1-2", "Its message says what for"},
	{"7.6.1-3", "The approval comes by another way"},
	{"8.1-1", "There is a card"},
	{"8.3.1-1", "It declares bindings and addresses as they are"},
	{"9.3-1", "Requests are those of JSON-RPC 2.0"},
	{"9.4.2-1", "Events of its streams are responses"},
	{"9.5-1", "Details of errors name their types"},
	{"11.5-1", "GET takes its params by query, in camelCase"},
	{"11.6-1", "Errors of REST have an ErrorInfo"},
	{"11.7-1", "Events of its streams are the objects themselves"},
	{"13.1-1", "Every operation asks for the right to it"},
	{"13.1-2", "Results are those within the caller's rights"},
	{"13.2-1", "Webhooks are called with their credentials"},
	{"13.3-1", "The extended card needs a credential"},
	{"14.3-1", "/.well-known/agent-card.json is a card"},
}

// TestConformanceTable writes down which test holds which requirement, and fails when
// one has none.
func TestConformanceTable(t *testing.T) {
	t.Parallel()
	requirements.Table{
		Tag:   "A2A",
		Rows:  mandatory,
		Tests: []string{"*_test.go", "../../internal/app/a2a*_test.go"},
		Page:  "../../docs/a2a-conformance.md",
		Head: "# A2A 1.0 conformance\n\nThe requirements (MUST) of the [specification](https://a2a-protocol.org/latest/specification/) for servers in the bindings JSON-RPC and HTTP+JSON, " +
			"by the sections that have them, in words of our own, and the tests that hold the bridge to them. What binds clients, gRPC, custom bindings and signatures of cards is not in it. " +
			"Generated by `go test ./doors/a2a -run ConformanceTable -update`.",
	}.Check(t, *update)
}
