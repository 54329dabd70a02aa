// Package conformance holds the bridge against the document of the protocol, AI
// Bridge 0.6.3. Its testdata lists every statement of the document, in words of
// our own, with the bridge's conformance to it and the evidence: a conversation
// with a bridge, a parameter tried at its edges, a printed example, or a test of
// another package. A deviation on purpose has its reason.
// docs/protocol-conformance.md and the tables of docs/coming-from-0.6.3.md are made
// of the lists. It has tests only.
package conformance
