// Package conformance tests a device, and so the SDK it is written with: it
// starts the device as a child process, plays the bridge to it and checks what
// it does against docs/protocol.md, clause by clause. docs/sdk-conformance.md
// describes the contract of such a device.
//
// The bridge is scripted: it sends what a real one sends only on bad days
// (repeats, garbage, a connection that is cut in the middle of a
// registration), and it sees every byte of the answers.
package conformance
