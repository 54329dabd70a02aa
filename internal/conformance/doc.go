// Package conformance holds the bridge against the document of the protocol, AI
// Bridge 0.6.3: every parameter of its tables, its data models, its error codes
// and its printed examples. What the bridge does otherwise on purpose is a list
// with reasons, from which docs/coming-from-0.6.3.md is made. It has tests
// only.
package conformance
